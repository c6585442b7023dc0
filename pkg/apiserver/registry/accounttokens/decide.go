package accounttokens

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// mounted are the tokens that pods of a namespace mount on a physical cluster, by what their accounts say about
// the mount that every pod has.
type mounted struct{ automounting, refusing uses }

// uses are tokens with an object whose pods mount each for the longest time.
type uses map[use]object

type use struct{ account, audience string }

// object is one that makes pods, and for how many seconds the token is good that they mount.
type object struct {
	resource schema.GroupResource
	name     string
	seconds  int64
}

func newMounted() mounted { return mounted{uses{}, uses{}} }

// add notes what the pods of an object mount on the target. The object counts if a user made it, see stamp.RunsOn.
func (m mounted) add(kind workload.Kind, obj *unstructured.Unstructured, target string) {
	if !stamp.RunsOn(obj, target) {
		return
	}
	for automount, to := range map[bool]uses{true: m.automounting, false: m.refusing} {
		for _, t := range workload.Tokens(kind, obj.Object, &automount) {
			u := use{t.Account, t.Audience}
			if has, ok := to[u]; !ok || has.seconds < t.Seconds {
				to[u] = object{kind.GroupResource(), obj.GetName(), t.Seconds}
			}
		}
	}
}

// permits says whether a token is among them, and by which object: automount is what its account says.
func (m mounted) permits(t workload.TokenUse, automount *bool) (by object, ok bool) {
	from := m.automounting
	if automount != nil && !*automount {
		from = m.refusing
	}
	by, ok = from[use{t.Account, t.Audience}]
	return by, ok && t.Seconds <= by.seconds
}
