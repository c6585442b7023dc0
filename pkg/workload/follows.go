package workload

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// Follows says that objects of the kind are about what other objects run, and make no
// pods themselves: they are needed where those are.
//
//	the kind                          is about
//	selects pods (Service, budget)    what has pods that it selects
//	scales (autoscaler)               what it names
//	leads to others (Ingress)         what those are about
//	is a claim                        what has pods that mount it
func (k Kind) Follows() bool {
	return k.Role == Placed && k.PodTemplate == nil &&
		(len(k.Selects) > 0 || len(k.Scales) > 0 || len(k.Leads) > 0 || k.IsClaim())
}

// IsClaim says that objects are claims for volumes.
func (k Kind) IsClaim() bool { return k.VolumeClaims != nil && len(k.VolumeClaims) == 0 }

// Selector selects the pods that an object is about; nil if it is about none. What cannot
// be read selects nothing.
func Selector(kind Kind, obj map[string]any) labels.Selector {
	n := len(kind.Selects)
	if n == 0 {
		return nil
	}
	content, ok := descend(obj, kind.Selects[:n-1])[kind.Selects[n-1]].(map[string]any)
	if !ok {
		return nil
	}
	if kind.LabelsSelector {
		if len(content) == 0 {
			return nil // a Service without selector has endpoints of another origin
		}
		return labels.SelectorFromSet(stringMap(content))
	}
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &selector) != nil {
		return nil
	}
	selects, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil
	}
	return selects
}

// PodLabels are the labels of the pods that an object makes, for each of its templates.
func PodLabels(kind Kind, obj map[string]any) []labels.Set {
	var out []labels.Set
	for _, t := range PodTemplates(kind, obj) {
		out = append(out, stringMap(child(child(t, "metadata"), "labels")))
	}
	return out
}

func stringMap(m map[string]any) labels.Set {
	out := labels.Set{}
	for key, value := range m {
		if s, ok := value.(string); ok {
			out[key] = s
		}
	}
	return out
}

// Scaled is what an autoscaler names: group, kind and name.
func Scaled(kind Kind, obj map[string]any) (group, named, name string) {
	ref := descend(obj, kind.Scales)
	if len(kind.Scales) == 0 || ref == nil {
		return "", "", ""
	}
	group, _, grouped := strings.Cut(text(ref, "apiVersion"), "/")
	if !grouped {
		group = ""
	}
	named = text(ref, "kind")
	if kind.Declared && named == "" { // as KEDA has it
		group, named = "apps", "Deployment"
	}
	return group, named, text(ref, "name")
}

// Led are the objects that an object leads to, sorted.
func Led(kind Kind, obj map[string]any) []Reference {
	var out collector
	for _, r := range kind.Leads {
		out.reference(r, obj)
	}
	slices.SortFunc(out, func(a, b Reference) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact([]Reference(out))
}

// Claims says that the pods of an object mount the claim of a name, also one that is made
// for it from a template.
func Claims(kind Kind, obj map[string]any, claim string) bool {
	for _, t := range PodTemplates(kind, obj) {
		for _, v := range children(child(t, "spec"), "volumes") {
			if text(child(v, "persistentVolumeClaim"), "claimName") == claim {
				return true
			}
		}
	}
	if kind.IsClaim() {
		return false
	}
	name := text(child(obj, "metadata"), "name")
	return slices.ContainsFunc(VolumeClaims(kind, obj), func(t map[string]any) bool {
		ordinal, ok := strings.CutPrefix(claim, text(child(t, "metadata"), "name")+"-"+name+"-")
		return ok && ordinal != "" && strings.Trim(ordinal, "0123456789") == ""
	})
}
