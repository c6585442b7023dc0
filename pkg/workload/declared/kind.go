package declared

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ResourceOf is the resource that a declaration names: it is called after it.
func ResourceOf(p *fleetv1alpha1.PlacedKind) schema.GroupResource {
	return schema.ParseGroupResource(p.Name)
}

// Kind is what a declaration declares.
func Kind(p *fleetv1alpha1.PlacedKind) workload.Kind {
	gr, s := ResourceOf(p), p.Spec
	kind := workload.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: gr.Group, Version: s.Version, Kind: s.Kind},
		Resource:         gr.Resource, Role: workload.Placed, Declared: true,
		Replicas: path(s.Replicas), Scales: path(s.Scales),
		Recreate: s.Changes == fleetv1alpha1.ChangesRecreate,
		Status:   workload.Status{None: s.Status.Source == fleetv1alpha1.StatusOfLogicalCluster},
	}
	for i, template := range s.PodTemplates {
		if i == 0 {
			kind.PodTemplate = path(template)
			continue
		}
		kind.PodTemplates = append(kind.PodTemplates, path(template))
	}
	if !kind.Status.None {
		kind.Status.Generation = s.Status.ObservedGeneration
		kind.Status.Rule = s.Status.Rule
		kind.Status.Counters = slices.Clone(s.Status.Counters)
	}
	return kind
}

// path is nil for what is not declared: an empty path would be the object itself.
func path(dotted string) []string {
	if dotted == "" {
		return nil
	}
	return strings.Split(dotted, ".")
}

// Catalog is the base with what is declared, and, by name, why a declaration is left out.
// The oldest count: what is declared later contradicts what is there, not the other way
// round.
func Catalog(base workload.Catalog, all []*fleetv1alpha1.PlacedKind) (workload.Catalog, map[string]Refusal) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *fleetv1alpha1.PlacedKind) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	catalog, refused := base, map[string]Refusal{}
	var kinds []workload.Kind
	for _, p := range all {
		if len(kinds) == fleetv1alpha1.MaxPlacedKinds {
			refused[p.Name] = Refusal{fleetv1alpha1.ReasonTooMany, fmt.Sprintf("%d kinds are declared already; remove one", len(kinds))}
			continue
		}
		next, err := base.With(append(slices.Clone(kinds), Kind(p))...)
		if err != nil {
			refused[p.Name] = Refusal{fleetv1alpha1.ReasonRefused, err.Error()}
			continue
		}
		kinds, catalog = append(kinds, Kind(p)), next
	}
	return catalog, refused
}

// Refusal is why a declaration is left out.
type Refusal struct{ Reason, Message string }
