package report

import (
	"encoding/json"
	"fmt"
	"strings"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// overrides has a line for each, in the order in which they are applied: where, of what,
// and what changes.
func (e *Explanation) overrides(list []placementv1alpha1.DecidedOverride) {
	for _, o := range list {
		what := changesOf(o.Patch)
		if o.Permits != nil {
			what = "more is permitted: " + permitsOf(*o.Permits)
		}
		if o.Problem != "" {
			what = "cannot be honoured, and nothing that it is for goes down: " + o.Problem
		}
		e.Lines = append(e.Lines, fmt.Sprintf("On %s, for %s, %s: %s.", strings.Join(o.PhysicalClusters, ", "), selection(o.Objects), o.Name, what))
	}
}

func changesOf(patch []placementv1alpha1.PatchOperation) string {
	out := make([]string, 0, len(patch))
	for _, o := range patch {
		out = append(out, string(o.Op)+" "+o.Path)
	}
	return strings.Join(out, ", ")
}

// permitsOf is a Tenancy as an admin wrote it.
func permitsOf(t fleetv1alpha1.Tenancy) string {
	b, err := json.Marshal(t)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// selection names what is selected, for people.
func selection(s *placementv1alpha1.ObjectSelection) string {
	if s == nil {
		return "all objects"
	}
	kinds := make([]string, 0, len(s.Kinds))
	for _, k := range s.Kinds {
		kinds = append(kinds, k.Kind)
	}
	out := "objects"
	if len(kinds) > 0 {
		out = strings.Join(kinds, ", ")
	}
	if len(s.Names) > 0 {
		out += " " + strings.Join(s.Names, ", ")
	}
	if s.LabelSelector != nil {
		out += " with the labels of its selector"
	}
	return out
}
