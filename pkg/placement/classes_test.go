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

// What a physical cluster maps counts, and not what objects name.
func TestAPhysicalClusterHasTheClassThatItMapsTo(t *testing.T) {
	for name, c := range map[string]struct {
		maps map[string]string
		want []string
	}{
		"nothing":        {nil, []string{"it has no ingress class fast", "it has no storage class fast"}},
		"to what it has": {map[string]string{"fast": "inside"}, []string{"", ""}},
		"all others":     {map[string]string{"slow": "fast", "*": "inside"}, []string{"", ""}},
		"to what it lacks": {map[string]string{"fast": "outside"},
			[]string{"it has no ingress class outside, to which it maps fast", "it has no storage class outside, to which it maps fast"}},
	} {
		pc := &fleetv1alpha1.PhysicalCluster{}
		pc.Spec.Tenancy.StorageClassNames, pc.Spec.Tenancy.IngressClassNames = c.maps, c.maps
		pc.Status.APIs, pc.Status.StorageClasses = []string{"/v1/pods"}, []string{"inside"}
		pc.Status.IngressClasses = &fleetv1alpha1.ReportedNames{Names: []string{"inside"}}
		for i, unit := range []Unit{{Needs: Needs{IngressClasses: []string{"fast"}}}, {Needs: Needs{StorageClasses: []string{"fast"}}}} {
			if got := Lacks(PhysicalCluster{PhysicalCluster: pc}, unit); got != c.want[i] {
				t.Errorf("%s: %q, want %q", name, got, c.want[i])
			}
		}
	}
}
