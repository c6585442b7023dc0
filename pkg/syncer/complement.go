package syncer

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requirement is one of a selector of labels.
type requirement struct {
	key      string
	operator metav1.LabelSelectorOperator
	values   string // a JSON list, sorted
}

// not is what exactly those fulfil that do not fulfil r.
func (r requirement) not() requirement {
	r.operator = map[metav1.LabelSelectorOperator]metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn: metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpNotIn: metav1.LabelSelectorOpIn,
		metav1.LabelSelectorOpExists: metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpDoesNotExist: metav1.LabelSelectorOpExists,
	}[r.operator]
	return r
}

func (r requirement) compare(other requirement) int {
	return cmp.Or(cmp.Compare(r.key, other.key), cmp.Compare(r.operator, other.operator), cmp.Compare(r.values, other.values))
}

func requirementsOf(selector map[string]any) []requirement {
	var out []requirement
	equal := field(selector, "matchLabels")
	for _, key := range slices.Sorted(maps.Keys(equal)) {
		out = append(out, requirement{key: key, operator: metav1.LabelSelectorOpIn, values: encoded([]any{equal[key]})})
	}
	for _, e := range list(selector, "matchExpressions") {
		values, _ := e["values"].([]any)
		out = append(out, requirement{key: text(e, "key"), operator: metav1.LabelSelectorOperator(text(e, "operator")), values: encoded(values)})
	}
	return out
}

func encoded(values []any) string {
	if len(values) == 0 {
		return ""
	}
	sorted := make([]string, 0, len(values))
	for _, v := range values {
		s, _ := v.(string)
		sorted = append(sorted, s)
	}
	slices.Sort(sorted)
	content, err := json.Marshal(sorted)
	if err != nil {
		panic(err) // a list of texts
	}
	return string(content)
}

func labelSelector(requirements []requirement) map[string]any {
	if len(requirements) == 0 {
		return map[string]any{}
	}
	var expressions []any
	for _, r := range requirements {
		e := map[string]any{"key": r.key, "operator": string(r.operator)}
		if r.values != "" {
			var values []any
			if err := json.Unmarshal([]byte(r.values), &values); err != nil {
				panic(err) // encoded made it
			}
			e["values"] = values
		}
		expressions = append(expressions, e)
	}
	return map[string]any{"matchExpressions": expressions}
}

// maxRequirements bounds those of one selector that are looked at.
const maxRequirements = 16

// complement are selectors that together have those, and only those, that none of the given
// ones has: for each given one, one of its requirements is not fulfilled. They are at most a
// number; complete says that this was enough, else some are missing.
func complement(selectors [][]requirement, limit int) (out [][]requirement, complete bool) {
	out, complete = [][]requirement{nil}, true
	for _, selector := range selectors {
		if len(selector) > maxRequirements { // who does not fulfil one of the first ones does not fulfil all
			selector, complete = selector[:maxRequirements], false
		}
		var next [][]requirement
		for _, chosen := range out {
			for _, r := range selector {
				if more := insert(next, with(chosen, r.not())); len(more) <= limit {
					next = more
				} else {
					complete = false
				}
			}
		}
		out = next
	}
	slices.SortFunc(out, func(a, b []requirement) int { return slices.CompareFunc(a, b, requirement.compare) })
	return out, complete
}

// with adds a requirement to sorted ones.
func with(chosen []requirement, r requirement) []requirement {
	at, found := slices.BinarySearchFunc(chosen, r, requirement.compare)
	if found {
		return chosen
	}
	return slices.Insert(slices.Clone(chosen), at, r)
}

// insert adds a selector, unless what it has another one has; those that it makes needless go.
func insert(selectors [][]requirement, s []requirement) [][]requirement {
	for _, other := range selectors {
		if among(other, s) {
			return selectors
		}
	}
	return append(slices.DeleteFunc(selectors, func(other []requirement) bool { return among(s, other) }), s)
}

// among says that all of some requirements are among others, both sorted: whoever fulfils
// these fulfils those.
func among(some, others []requirement) bool {
	for _, r := range others {
		if len(some) > 0 && some[0] == r {
			some = some[1:]
		}
	}
	return len(some) == 0
}
