package declared

import (
	"testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestTheRulesOfWellKnownKindsMakeACatalogTogether(t *testing.T) {
	var all []*fleetv1alpha1.PlacedKind
	for name, versions := range known {
		for version := range versions {
			p := widgets(name, len(all))
			p.Spec.Kind, p.Spec.Version = "Kind"+version+name[:3], version
			Complete(p)
			all = append(all, p)
		}
	}
	c, refused := Catalog(workload.Builtin(), all)
	if len(refused) != 0 || len(c.Declared()) != len(all) {
		t.Errorf("%d of %d are in the catalog; refused: %v", len(c.Declared()), len(all), refused)
	}
}

func TestWhatADeclarationOfAWellKnownKindSaysIsKept(t *testing.T) {
	p := widgets("rollouts.argoproj.io", 1)
	p.Spec.Version, p.Spec.Kind, p.Spec.PodTemplates = "v1alpha1", "Rollout", []string{"spec.other"}
	Complete(p)
	if p.Spec.PodTemplates[0] != "spec.other" || p.Spec.Replicas != "spec.replicas" || len(p.Spec.Status.Counters) == 0 {
		t.Errorf("got %+v", p.Spec)
	}
	other := widgets("widgets.example.com", 1)
	Complete(other)
	if len(other.Spec.PodTemplates) != 0 || other.Spec.Replicas != "" {
		t.Errorf("a kind that nobody knows gets %+v", other.Spec)
	}
}
