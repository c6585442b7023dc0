package placement

import (
	"testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Where something is placed is one question, where it may be placed another: the warning comes although nobody has
// the class.
func TestAClassThatIsLackedIsSaidIfItIsKnown(t *testing.T) {
	lacks := "it has no runtime class with the handler runsc that pods may run with"
	for name, c := range map[string]struct {
		reports *fleetv1alpha1.RuntimeHandlers
		want    string
	}{
		"not known": {nil, ""},
		"none":      {&fleetv1alpha1.RuntimeHandlers{}, lacks},
		"others":    {&fleetv1alpha1.RuntimeHandlers{Names: []string{"kata"}}, lacks},
		"has it":    {&fleetv1alpha1.RuntimeHandlers{Names: []string{"kata", "runsc"}}, ""},
	} {
		pc := &fleetv1alpha1.PhysicalCluster{}
		pc.Status.RuntimeHandlers = c.reports
		if got := Lacks(PhysicalCluster{PhysicalCluster: pc}, Unit{RuntimeHandlers: []string{"runsc"}}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
