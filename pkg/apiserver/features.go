package apiserver

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Two features of upstream's storage are off, as their memory grows with the
// number of logical clusters:
//
//   - Snapshots of the watch cache, one for each recent event of a resource, serve
//     the later pages of long lists. Here a list is that of one logical cluster,
//     mostly one page; its later pages come from etcd.
//   - Sizes of objects, kept by key, estimate what a list costs for priority and
//     fairness, which we do not use.
func init() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.ListFromCacheSnapshot):     false,
		string(features.SizeBasedListCostEstimate): false,
	}))
}
