package accounttokens

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// asked is what a syncer asks for, in a namespace.
type asked struct {
	target string
	token  workload.TokenUse
}

// permitted says whether the pods of an object mount the token on the target: automount is
// what its account says. The object counts if a user made it:
//
//	on the target it                            counts
//	is not, or waits, or has ended elsewhere    no
//	mirrors what controllers there made         no: the syncer wrote it
//	is such a mirror, of what a user made       yes
//	has a copy, also one that is being removed  yes
func (a asked) permitted(kind workload.Kind, obj *unstructured.Unstructured, automount *bool) bool {
	entry, ok := stamp.TargetsOf(obj.GetAnnotations())[a.target]
	switch {
	case !ok:
		return false
	case entry.Keeps(), entry.State == placementv1alpha1.TargetStateRemoving:
	case entry.State == placementv1alpha1.TargetObserved && entry.Adopted:
	default:
		return false
	}
	for _, use := range workload.Tokens(kind, obj.Object, automount) {
		if use.Account == a.token.Account && use.Audience == a.token.Audience && a.token.Seconds <= use.Seconds {
			return true
		}
	}
	return false
}
