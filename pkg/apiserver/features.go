package apiserver

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Four features of upstream's storage are off. The memory of the first two grows with
// the number of logical clusters, the others take a goroutine of each watch cache:
//
//   - Snapshots of the watch cache, one for each recent event of a resource, serve
//     the later pages of long lists. Here a list is that of one logical cluster,
//     mostly one page; its later pages come from etcd.
//   - Sizes of objects, kept by key, estimate what a list costs for priority and
//     fairness, which we do not use.
//   - The comparison of watch caches with etcd, every five minutes, decodes all objects
//     of all logical clusters; what follows from it is a metric, without snapshots.
//   - Decoding the events of one watch concurrently starts a goroutine for each event.
func init() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.ListFromCacheSnapshot):       false,
		string(features.SizeBasedListCostEstimate):   false,
		string(features.DetectCacheInconsistency):    false,
		string(features.ConcurrentWatchObjectDecode): false,
	}))
}
