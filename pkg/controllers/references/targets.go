package references

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// rootCA is the ConfigMap with the certificate authority of the logical
// cluster; each physical cluster has one of that name itself.
const rootCA = "kube-root-ca.crt"

// never reports whether an object stays up whatever refers to it.
func never(resource schema.GroupResource, obj metav1.Object) bool {
	switch resource {
	case workload.ConfigMaps:
		return obj.GetName() == rootCA
	case workload.Secrets:
		// The API requires this annotation on the Secrets that hold tokens.
		_, token := obj.GetAnnotations()[corev1.ServiceAccountNameKey]
		return token
	}
	return true
}

// need says what the referrers of an object need on a target.
type need int

const (
	// needKeep: a referrer is being removed there, what it uses goes after it; or a
	// controller there has adopted it, and it uses what was there before.
	needKeep need = iota + 1
	// needCopy: a referrer keeps a copy there.
	needCopy
)

// needs of all referrers by target.
func needs(referrers []*holder) map[string]need {
	out := map[string]need{}
	for _, h := range referrers {
		for name, target := range h.targets {
			switch target.State {
			case placementv1alpha1.TargetSync:
				out[name] = needCopy
			case placementv1alpha1.TargetStateRemoving:
				out[name] = max(out[name], needKeep)
			case placementv1alpha1.TargetObserved:
				if target.Adopted {
					out[name] = max(out[name], needKeep)
				}
			}
		}
	}
	return out
}

// adds says that a copy is needed where none is yet.
func adds(current placementv1alpha1.Targets, needed map[string]need) bool {
	for name, n := range needed {
		if _, ok := current[name]; !ok && n == needCopy {
			return true
		}
	}
	return false
}

// removes says that a copy would be removed because nobody needs it.
func removes(current placementv1alpha1.Targets, needed map[string]need) bool {
	for name, target := range current {
		if target.State == placementv1alpha1.TargetSync && needed[name] == 0 {
			return true
		}
	}
	return false
}

// next are the targets that an object should have.
//
//	has now    needed  then
//	nothing    copy    sync
//	nothing    else    nothing
//	sync       yes     sync
//	sync       no      Removing
//	Removing   any     Removing: a removal that has begun is finished first
//	Observed   any     Observed: not ours
func next(current placementv1alpha1.Targets, needed map[string]need) placementv1alpha1.Targets {
	out := placementv1alpha1.Targets{}
	for name, target := range current {
		if target.State == placementv1alpha1.TargetSync && needed[name] == 0 {
			target = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		}
		out[name] = target
	}
	for name, n := range needed {
		if _, ok := out[name]; !ok && n == needCopy {
			out[name] = placementv1alpha1.Target{}
		}
	}
	return out
}
