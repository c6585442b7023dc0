package accounttokens

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// asked is what a syncer asks for, in a namespace.
type asked struct {
	target string
	token  workload.TokenUse
}

// permitted says whether the pods of an object mount the token on the target: automount is
// what its account says. The object counts if a user made it, see stamp.RunsOn.
func (a asked) permitted(kind workload.Kind, obj *unstructured.Unstructured, automount *bool) bool {
	if !stamp.RunsOn(obj, a.target) {
		return false
	}
	for _, use := range workload.Tokens(kind, obj.Object, automount) {
		if use.Account == a.token.Account && use.Audience == a.token.Audience && a.token.Seconds <= use.Seconds {
			return true
		}
	}
	return false
}
