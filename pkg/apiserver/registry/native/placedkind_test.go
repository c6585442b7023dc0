package native

import (
	"strings"
	"testing"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func declaration(name string, change func(*fleet.PlacedKindSpec)) *fleet.PlacedKind {
	p := &fleet.PlacedKind{Spec: fleet.PlacedKindSpec{Version: "v1", Kind: "Widget"}}
	p.Name = name
	PlacedKind().Default(p)
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func TestADeclarationThatCannotHoldIsRefusedByItsField(t *testing.T) {
	for name, c := range map[string]struct {
		declared *fleet.PlacedKind
		was      *fleet.PlacedKind
		want     string
	}{
		"good":                     {declaration("widgets.example.com", nil), nil, ""},
		"of a SIG":                 {declaration("jobsets.jobset.x-k8s.io", nil), nil, ""},
		"no group":                 {declaration("widgets", nil), nil, "metadata.name"},
		"a group of Kubernetes":    {declaration("deployments.apps", nil), nil, "metadata.name"},
		"roles":                    {declaration("clusterroles.rbac.authorization.k8s.io", nil), nil, "a group of Kubernetes itself"},
		"webhooks":                 {declaration("mutatingwebhookconfigurations.admissionregistration.k8s.io", nil), nil, "a group of Kubernetes itself"},
		"our own":                  {declaration("copies.placement.atoll.dev", nil), nil, "metadata.name"},
		"no version":               {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.Version = "" }), nil, "spec.version"},
		"no kind":                  {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.Kind = "" }), nil, "spec.kind"},
		"changes":                  {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.Changes = "Sometimes" }), nil, "spec.changes"},
		"the object as a template": {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.PodTemplates = []string{"spec"} }), nil, "spec.podTemplates[0]"},
		"a template of metadata":   {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.PodTemplates = []string{"metadata.labels"} }), nil, "spec.podTemplates[0]"},
		"the first in a list":      {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.PodTemplates = []string{"spec.groups.*.template"} }), nil, "spec.podTemplates[0]"},
		"replicas of nothing":      {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.Replicas = "spec.replicas" }), nil, "spec.podTemplates"},
		"a counter that is none":   {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.Status.Counters = []string{"conditions"} }), nil, "spec.status.counters[0]"},
		"a rule that is none":      {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.Status.Rule = "{" }), nil, "spec.status.rule"},
		"a rule without copies": {declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) {
			s.Status.Source, s.Status.Rule = fleet.StatusOfLogicalCluster, "{}"
		}), nil, "spec.status"},
		"another version": {declaration("widgets.example.com", nil), declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.Version = "v2" }), "spec.version"},
		"other templates": {declaration("widgets.example.com", nil), declaration("widgets.example.com", func(s *fleet.PlacedKindSpec) { s.PodTemplates = []string{"spec.template"} }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			errs := validatePlacedKind(c.declared, nil)
			if c.was != nil {
				errs = validatePlacedKind(c.declared, c.was)
			}
			if (len(errs) > 0) != (c.want != "") || len(errs) > 0 && !strings.Contains(errs.ToAggregate().Error(), c.want) {
				t.Errorf("got %v, want %q", errs, c.want)
			}
		})
	}
}

func TestADeclarationOfAWellKnownKindIsFilledIn(t *testing.T) {
	p := &fleet.PlacedKind{Spec: fleet.PlacedKindSpec{Version: "v1alpha1", Kind: "Rollout"}}
	p.Name = "rollouts.argoproj.io"
	PlacedKind().Default(p)
	if errs := validatePlacedKind(p, nil); len(errs) > 0 || strings.Join(p.Spec.PodTemplates, ",") != "spec.template" || p.Spec.Status.Source != fleet.StatusFromCopies {
		t.Errorf("got %+v, %v", p.Spec, errs)
	}
}
