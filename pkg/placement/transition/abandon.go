package transition

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Origin are the physical clusters that a unit would go back to if it gave up where it goes: those
// that have its traffic, sorted. There are none if nothing is left for what is new: what is only
// added has nowhere to go back to, and what has begun to leave is on its way.
//
//	the phase     goes to  leaves, with traffic   origin
//	Starting      some     some                   what has the traffic, see serving
//	any other combination                         none
func Origin(spec placementv1alpha1.PlacementSpec) []string {
	t := spec.Transition
	if spec.Decision == nil || t == nil || t.Phase != placementv1alpha1.TransitionStarting || len(t.To) == 0 ||
		!slices.ContainsFunc(t.From, func(name string) bool { return !slices.Contains(t.Withdrawn, name) }) {
		return nil
	}
	out := serving(spec)
	slices.Sort(out)
	return out
}

// Back is what is known of where a unit would go back to.
type Back struct {
	// Refused is why policies, a user or an admin do not let the unit be there, or for some time
	// only; empty: they do.
	Refused string
	// NotReady says why those are not ready that are not.
	NotReady map[string]string
	// Obstacles are what has begun where the unit goes, and cannot leave.
	Obstacles []string
}

// Keeps says what keeps a unit from going back from a move that is stuck; empty: nothing.
//
//	may it be there   are all of these  may what was begun  then
//	                  ready             leave
//	no, or not long   any               any                 waits
//	yes               no                any                 waits: nothing is left for what is not known to work
//	yes               yes               no                  waits
//	yes               yes               yes                 goes back
//
// Where replicas are divided, no target has given up a part of its own yet, see short; what others
// have been given meanwhile is given up as ever, once it is not needed.
func (b Back) Keeps() string {
	switch {
	case b.Refused != "":
		return b.Refused
	case len(b.NotReady) > 0:
		name := slices.Min(slices.Collect(maps.Keys(b.NotReady)))
		return name + ": " + b.NotReady[name]
	}
	return strings.Join(b.Obstacles, "; ")
}

// Content is a digest of the pod templates of a unit, as far as a move waits for their pods: what
// an autoscaler changes, Jobs, and what is mirrored count for nothing.
func Content(objects []Object) string {
	objects = slices.DeleteFunc(slices.Clone(objects), func(o Object) bool {
		return o.Kind.PodTemplate == nil || o.Kind.IsPod() || o.Kind.Semantics == workload.JobSemantics || o.Kind.Semantics == workload.CronJobSemantics ||
			stamp.Mirrored(o.Logical) || o.Logical.GetDeletionTimestamp() != nil
	})
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Logical.GetName(), b.Logical.GetName()))
	})
	sum := sha256.New()
	for _, o := range objects {
		digest(sum, o)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func digest(sum hash.Hash, o Object) {
	fmt.Fprintf(sum, "%s/%s/%s\x00", o.Kind.Group, o.Kind.Kind, o.Logical.GetName())
	// Nothing that was decoded from JSON cannot be encoded, and what could not be would not change.
	templates, _ := json.Marshal(workload.PodTemplates(o.Kind, o.Logical.Object))
	sum.Write(append(templates, 0))
}
