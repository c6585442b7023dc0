package syncer

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// difference compares what is in the logical cluster with what shall be, and
// returns the whole object to write. Server defaults that only the logical one
// has are no difference.
func (s Observation) difference(desired *unstructured.Unstructured) []Action {
	if s.isPod() {
		node, _ := field(desired.Object, "spec")["nodeName"].(string)
		have, _ := field(s.Logical.Object, "spec")["nodeName"].(string)
		if have == "" && node != "" {
			return []Action{{Verb: BindUp, Object: desired}}
		}
	}
	merged := &unstructured.Unstructured{Object: deepCopy(s.Logical.Object).(map[string]any)}
	a := Action{Verb: UpdateUp, Object: merged}
	if s.mergeMetadata(merged, desired) {
		a.Spec = true
	}
	for name, value := range desired.Object {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		if s.isPod() {
			if name == "spec" && mergeImages(merged, desired) {
				a.Spec = true
			}
			continue // nothing else of a Pod can be changed by an update
		}
		if !contains(merged.Object[name], value) {
			merged.Object[name] = merge(merged.Object[name], value)
			a.Spec = true
		}
	}
	if status, differs := s.statusUp(merged); differs {
		merged.Object["status"] = status
		a.Status = true
	}
	if !a.Spec && !a.Status {
		return nil
	}
	return []Action{a}
}

// mergeMetadata sets labels, annotations and owners; keys of the system stay.
func (s Observation) mergeMetadata(merged, desired *unstructured.Unstructured) (changed bool) {
	// The server generates the labels of a Job from its UID.
	labels := withSystemKeys(desired.GetLabels(), merged.GetLabels(), generatedLabels(s.Kind, merged.Object))
	annotations := withSystemKeys(desired.GetAnnotations(), merged.GetAnnotations(), nil)
	delete(annotations, placementv1alpha1.WantedAnnotation) // it is done, or cannot be
	if applied, ok := merged.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; ok && s.isCopy() {
		annotations[corev1.LastAppliedConfigAnnotation] = applied // did not go down
	}
	if !maps.Equal(labels, merged.GetLabels()) {
		merged.SetLabels(labels)
		changed = true
	}
	if !maps.Equal(annotations, merged.GetAnnotations()) {
		merged.SetAnnotations(annotations)
		changed = true
	}
	if !equality.Semantic.DeepEqual(desired.GetOwnerReferences(), merged.GetOwnerReferences()) {
		merged.SetOwnerReferences(desired.GetOwnerReferences())
		changed = true
	}
	return changed
}

// withSystemKeys are the desired keys, with those of the system and the generated ones
// as they are.
func withSystemKeys(desired, current map[string]string, generated []string) map[string]string {
	out := maps.Clone(desired)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range current {
		if placementv1alpha1.IsSystemKey(k) {
			out[k] = v
		}
	}
	for _, k := range generated {
		if v, ok := current[k]; ok {
			out[k] = v
		}
	}
	return out
}

// mergeImages copies the images of containers, by name.
func mergeImages(merged, desired *unstructured.Unstructured) (changed bool) {
	for _, containers := range []string{"initContainers", "containers"} {
		images := map[any]any{}
		for _, c := range list(field(desired.Object, "spec"), containers) {
			images[c["name"]] = c["image"]
		}
		for _, c := range list(field(merged.Object, "spec"), containers) {
			if image, ok := images[c["name"]]; ok && image != c["image"] {
				c["image"] = image
				changed = true
			}
		}
	}
	return changed
}

// statusUp is the status that the logical object shall have.
func (s Observation) statusUp(logical *unstructured.Unstructured) (status map[string]any, differs bool) {
	raw := field(s.Physical.Object, "status")
	if raw == nil || s.countingDelay() > 0 {
		return nil, false
	}
	status = deepCopy(raw).(map[string]any)
	generation := logical.GetGeneration()
	if !observes(s.Kind, raw, s.Physical.GetGeneration()) {
		generation = max(0, generation-1)
	}
	translateGeneration(status, generation)
	current := field(s.Logical.Object, "status")
	status = valid(s.Kind, logical, status, current)
	keepGates(status, current, s.gates())
	return status, !equality.Semantic.DeepEqual(status, current)
}

// StatusUp is the status of an object that has just been made.
func StatusUp(s Observation, created *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	s.Logical = created
	status, differs := s.statusUp(created)
	if !differs {
		return nil, false
	}
	out := created.DeepCopy()
	out.Object["status"] = status
	return out, true
}

// translateGeneration replaces every observed generation of a status.
func translateGeneration(status map[string]any, generation int64) {
	if _, ok := integer(status, "observedGeneration"); ok {
		status["observedGeneration"] = generation
	}
	for _, c := range list(status, "conditions") {
		if _, ok := integer(c, "observedGeneration"); ok {
			c["observedGeneration"] = generation
		}
	}
}

// keep takes a field from current if it has it.
func keep(status, current map[string]any, name string) {
	if v, ok := current[name]; ok {
		status[name] = v
	}
}

// contains says that have has everything that want has.
func contains(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return len(w) == 0 && have == nil
		}
		for name, value := range w {
			if !contains(h[name], value) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok {
			return len(w) == 0 && have == nil
		}
		if len(h) != len(w) {
			return false
		}
		for i := range w {
			if !contains(h[i], w[i]) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(have, want)
}

// merge puts over onto base: maps field by field, anything else as a whole.
func merge(base, over any) any {
	b, okBase := base.(map[string]any)
	o, okOver := over.(map[string]any)
	if !okBase || !okOver {
		return over
	}
	for name, value := range o {
		b[name] = merge(b[name], value)
	}
	return b
}
