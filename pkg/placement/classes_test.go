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
		reports *fleetv1alpha1.ReportedNames
		want    string
	}{
		"not known": {nil, ""},
		"none":      {&fleetv1alpha1.ReportedNames{}, lacks},
		"others":    {&fleetv1alpha1.ReportedNames{Names: []string{"kata"}}, lacks},
		"has it":    {&fleetv1alpha1.ReportedNames{Names: []string{"kata", "runsc"}}, ""},
	} {
		pc := &fleetv1alpha1.PhysicalCluster{}
		pc.Status.RuntimeHandlers = c.reports
		if got := Lacks(PhysicalCluster{PhysicalCluster: pc}, Unit{Needs: Needs{RuntimeHandlers: []string{"runsc"}}}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
