package accounttokens

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// mounted are the tokens that pods of a namespace mount on a physical cluster, by what their accounts say about
// the mount that every pod has.
type mounted struct{ automounting, refusing uses }

// uses are tokens, and for how many seconds each is good at most.
type uses map[use]int64

type use struct{ account, audience string }

func newMounted() mounted { return mounted{uses{}, uses{}} }

// add notes what the pods of an object mount on the target. The object counts if a user made it, see stamp.RunsOn.
func (m mounted) add(kind workload.Kind, obj *unstructured.Unstructured, target string) {
	if !stamp.RunsOn(obj, target) {
		return
	}
	for automount, to := range map[bool]uses{true: m.automounting, false: m.refusing} {
		for _, t := range workload.Tokens(kind, obj.Object, &automount) {
			u := use{t.Account, t.Audience}
			to[u] = max(to[u], t.Seconds)
		}
	}
}

// permits says whether a token is among them: automount is what its account says.
func (m mounted) permits(t workload.TokenUse, automount *bool) bool {
	from := m.automounting
	if automount != nil && !*automount {
		from = m.refusing
	}
	seconds, ok := from[use{t.Account, t.Audience}]
	return ok && t.Seconds <= seconds
}
