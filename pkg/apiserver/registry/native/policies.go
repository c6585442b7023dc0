package native

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// ClusterPlacementPolicy says where namespaces may be placed, in the logical cluster
// that it is in, or from "root" in all.
func ClusterPlacementPolicy() Kind {
	return Kind{
		GroupVersion: placement.SchemeGroupVersion, Kind: "ClusterPlacementPolicy", Plural: "clusterplacementpolicies", Singular: "clusterplacementpolicy",
		ShortNames: []string{"cpp"},
		New:        func() runtime.Object { return &placement.ClusterPlacementPolicy{} },
		NewList:    func() runtime.Object { return &placement.ClusterPlacementPolicyList{} },
		Spec:       func(o runtime.Object) any { return &o.(*placement.ClusterPlacementPolicy).Spec },
		Validate:   validateClusterPlacementPolicy,
		Columns:    policyColumns(),
		Row: func(o runtime.Object) []any {
			return policyCells(o.(*placement.ClusterPlacementPolicy).Spec.PolicyRules)
		},
	}
}

// PlacementPolicy says where the namespace that it is in may be placed.
func PlacementPolicy() Kind {
	return Kind{
		GroupVersion: placement.SchemeGroupVersion, Kind: "PlacementPolicy", Plural: "placementpolicies", Singular: "placementpolicy",
		ShortNames: []string{"pp"}, Namespaced: true,
		New:      func() runtime.Object { return &placement.PlacementPolicy{} },
		NewList:  func() runtime.Object { return &placement.PlacementPolicyList{} },
		Spec:     func(o runtime.Object) any { return &o.(*placement.PlacementPolicy).Spec },
		Validate: validatePlacementPolicy,
		Columns:  append([]metav1.TableColumnDefinition{column("Objects", "What it selects.")}, policyColumns()...),
		Row: func(o runtime.Object) []any {
			spec := o.(*placement.PlacementPolicy).Spec
			return append([]any{objectsCell(spec.Objects)}, policyCells(spec.PolicyRules)...)
		},
	}
}

func policyColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column("Count", "Number of physical clusters."), column("Topology", "How they are laid out."),
		column("Terms", "Which physical clusters are permitted."), wideColumn("Preferences", "Which are better, in order."),
	}
}

func policyCells(r placement.PolicyRules) []any {
	count := ""
	if r.Count != nil {
		count = fmt.Sprint(*r.Count)
	}
	layout := []string{}
	for _, t := range r.Topology {
		n := "all"
		if t.Count != nil {
			n = fmt.Sprint(*t.Count)
		}
		layout = append(layout, t.Key+"="+n)
	}
	if r.Spread != nil {
		layout = append(layout, fmt.Sprintf("even by %s (%d)", r.Spread.Key, r.Spread.MaxSkew))
	}
	return []any{count, strings.Join(layout, ","), termCell(r.Terms, " or "), termCell(r.Preferences, " then ")}
}

// objectsCell is empty for a policy for the whole namespace.
func objectsCell(o *placement.ObjectSelection) string {
	if o == nil {
		return ""
	}
	parts := []string{}
	for _, k := range o.Kinds {
		parts = append(parts, k.Kind)
	}
	parts = append(parts, o.Names...)
	if o.LabelSelector != nil {
		parts = append(parts, metav1.FormatLabelSelector(o.LabelSelector))
	}
	return strings.Join(parts, ",")
}

func termCell(terms []placement.PhysicalClusterTerm, between string) string {
	out := []string{}
	for _, t := range terms {
		parts := []string{}
		for _, key := range slices.Sorted(maps.Keys(t.MatchLabels)) {
			parts = append(parts, key+"="+t.MatchLabels[key])
		}
		for _, e := range t.MatchExpressions {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, "|"))))
		}
		if len(parts) == 0 {
			parts = []string{"any"}
		}
		out = append(out, strings.Join(parts, ","))
	}
	return strings.Join(out, between)
}
