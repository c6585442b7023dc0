package workload

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// validate says what is wrong with the kinds, each of them and together.
func (t *tables) validate() []error {
	var errs []error
	containers, before := 0, 0
	for _, k := range t.all {
		for _, problem := range append(k.problems(), t.dangling(k)...) {
			errs = append(errs, fmt.Errorf("kind %s: %s", k.GroupKind(), problem))
		}
		if k.Role == Container {
			containers++
		}
		at := slices.Index(roles, k.Role)
		if at < before {
			errs = append(errs, fmt.Errorf("kind %s: role: %s comes before %s, in which it may be needed", k.GroupKind(), k.Role, roles[before]))
		}
		before = max(before, at)
	}
	if containers != 1 {
		errs = append(errs, fmt.Errorf("there are %d kinds with the role %s instead of one", containers, Container))
	}
	return errs
}

// problems of a kind by itself.
func (k Kind) problems() []string {
	var out []string
	add := func(bad bool, problem string) {
		if bad {
			out = append(out, problem)
		}
	}
	add(k.Kind == "" || k.Version == "", "version and kind must be set")
	add(k.Resource == "", "resource must be set")
	add(!slices.Contains(roles, k.Role), fmt.Sprintf("role: there is none called %q", k.Role))
	add(k.Role == Mirrored && !k.Observed, "observed: nothing else happens to objects of the role Mirrored")
	add(k.Observed && k.Role != Mirrored && k.Role != Placed, "observed: only what is placed or mirrored is made below")
	add(len(k.Replicas) > 0 && len(k.Parallelism) > 0, "parallelism: replicas say how many pods there are")
	add((len(k.Replicas) > 0 || len(k.Parallelism) > 0) && k.PodTemplate == nil, "podTemplate: there is a number of pods, but no template")
	add(len(k.PodTemplates) > 0 && len(k.PodTemplate) == 0, "podTemplates: the first one is podTemplate")
	add(len(k.TTL) > 0 && len(k.Finished.Conditions) == 0, "ttl: finished.conditions must say since when an object has ended")
	add(k.InSum && k.Role != Ruling, "inSum: only what rules limits a sum")
	add(k.Recreate && k.Role != Placed, "recreate: only what is placed is made again")
	add(k.Status.None && !emptyStatus(k.Status), "status: there is none, but fields of it")
	add(k.Semantics != "" && !slices.Contains(AllSemantics(), k.Semantics), fmt.Sprintf("semantics: there is nothing called %q", k.Semantics))
	for name, path := range k.paths() {
		add(slices.Contains(path, ""), name+": a field has no name")
	}
	for _, r := range k.References {
		add(r.Resource.Resource == "", "references: the resource must be set")
		add((len(r.Path) == 0) == (r.Annotation == ""), "references: either path or annotation must be set")
	}
	for _, r := range k.Leads {
		add(r.Resource.Resource == "" || len(r.Path) == 0, "leads: resource and path must be set")
	}
	return out
}

func (k Kind) paths() map[string][]string {
	paths := map[string][]string{
		"podTemplate": k.PodTemplate, "objectTemplate": k.ObjectTemplate, "replicas": k.Replicas, "parallelism": k.Parallelism,
		"volumeClaims": k.VolumeClaims, "scales": k.Scales, "ttl": k.TTL,
		"selects": k.Selects,
	}
	for i, path := range k.PodTemplates {
		paths[fmt.Sprintf("podTemplates[%d]", i)] = path
	}
	for i, path := range k.RuntimeFields {
		paths[fmt.Sprintf("runtimeFields[%d]", i)] = path
	}
	for i, r := range k.References {
		paths[fmt.Sprintf("references[%d]", i)] = r.Path
	}
	for i, r := range k.Leads {
		paths[fmt.Sprintf("leads[%d]", i)] = r.Path
	}
	return paths
}

func emptyStatus(s Status) bool {
	return !s.Generation && s.Rule == "" && len(s.Counters)+len(s.Required)+len(s.Rising)+len(s.Latest)+len(s.Kept)+len(s.Phases) == 0
}

// dangling is what a kind says of kinds that are not in the catalog, or not what it
// takes them for.
func (t *tables) dangling(k Kind) []string {
	var out []string
	observed := func(field string, gk schema.GroupKind) {
		if i, ok := t.byKind[gk]; !ok || !t.all[i].Observed || !t.all[i].Copied() {
			out = append(out, fmt.Sprintf("%s: %s is no kind of the catalog that is copied and mirrored", field, gk))
		}
	}
	for _, gk := range k.Adopts {
		observed("adopts", gk)
	}
	if k.Numbers.Empty() {
		return out
	}
	if _, ok := t.byKind[k.Numbers]; !ok {
		out = append(out, fmt.Sprintf("numbers: %s is no kind of the catalog", k.Numbers))
	}
	return out
}
