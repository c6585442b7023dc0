package syncer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/override"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ReasonOverrideFailed is the reason of the Copy of an object with an override that does not
// apply to it, or may not. What is below stays as it is.
const ReasonOverrideFailed = "OverrideFailed"

// overridden is a logical object as policies change it for the target: from here on it is
// treated as if its user had written it so. Without overrides it is the object itself.
func overridden(logical *unstructured.Unstructured, p Placing) (*unstructured.Unstructured, error) {
	if len(p.Target.Overrides) == 0 {
		return logical, nil
	}
	content, err := override.Apply(p.Ref.Kind, logical.Object, p.Target.Overrides)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{Object: content}
	if err := sameLookups(logical, changed, p); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Target.Overrides[len(p.Target.Overrides)-1].Name, err)
	}
	return changed, nil
}

// sameLookups refuses what would need, of this target, something that was looked up for the
// object as it is.
func sameLookups(before, after *unstructured.Unstructured, p Placing) error {
	kind := p.Ref.Kind
	switch {
	case AccountName(kind, before, p.Server) != AccountName(kind, after, p.Server):
		return errors.New("it changes whether pods have tokens; change the object")
	case NeedsNames(kind, before.Object) != NeedsNames(kind, after.Object):
		return errors.New("it changes who answers with names; change the object")
	case kind.Semantics == workload.IngressSemantics:
		had := sets.New(Hosts(before)...)
		for _, host := range Hosts(after) {
			if !had.Has(host) {
				return fmt.Errorf("host %s: name it in the object, so that it is known who has it", host)
			}
		}
	}
	return nil
}

// overrideFailure is why nothing can go down with the overrides of a target; nil if it can.
func overrideFailure(logical *unstructured.Unstructured, p Placing) *Failure {
	if _, err := overridden(logical, p); err != nil {
		return &Failure{Reason: ReasonOverrideFailed, Message: err.Error()}
	}
	return nil
}

// refusedOverride is the finding in the place of an object that cannot be overridden.
func refusedOverride(err error) boundary.Finding {
	return boundary.Finding{Field: "metadata", Verdict: boundary.Refused, Why: err.Error()}
}

// overriddenAnnotation, on a pod template below, has what overrides changed of it, as the
// user wrote it; null where the user wrote nothing. What is mirrored of the template says
// that again, as it is the history of what the user wrote. Pods say what runs.
const overriddenAnnotation = "atoll.dev/overridden"

// noteOverridden writes into the templates of what goes down what they were before they
// were overridden.
func noteOverridden(kind workload.Kind, before, after, down map[string]any) {
	if kind.IsPod() {
		return
	}
	was, is := workload.PodTemplates(kind, before), workload.PodTemplates(kind, after)
	for i, t := range workload.PodTemplates(kind, down) {
		if i >= len(was) || i >= len(is) {
			return
		}
		x, y := contentOf(was[i]), contentOf(is[i])
		c := templateContent{Labels: changes(x.Labels, y.Labels), Annotations: changes(x.Annotations, y.Annotations), Spec: changes(x.Spec, y.Spec)}
		if len(c.Labels)+len(c.Annotations)+len(c.Spec) == 0 {
			continue
		}
		if b, err := json.Marshal(c); err == nil && len(b) <= maxReplaced {
			setNested(t, string(b), "metadata", "annotations", overriddenAnnotation)
		}
	}
}

// changes are the values of before that are others after, nil for those that were not there.
func changes(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range before {
		if !placementv1alpha1.IsSystemKey(name) && !equality.Semantic.DeepEqual(after[name], value) {
			out[name] = value
		}
	}
	for name := range after {
		if _, had := before[name]; !had && !placementv1alpha1.IsSystemKey(name) {
			out[name] = nil
		}
	}
	return out
}

// writtenOf are the notes of noteOverridden on a template.
func writtenOf(template map[string]any) (c templateContent) {
	noted, _ := field(field(template, "metadata"), "annotations")[overriddenAnnotation].(string)
	if noted == "" || unmarshal(noted, &c) != nil {
		return templateContent{}
	}
	return c
}

// giveBack puts into a template what was there before overrides.
func (c templateContent) giveBack(template map[string]any) {
	for _, part := range []struct {
		path   []string
		values map[string]any
	}{
		{[]string{"metadata", "labels"}, c.Labels}, {[]string{"metadata", "annotations"}, c.Annotations}, {[]string{"spec"}, c.Spec},
	} {
		for name, value := range part.values {
			if value != nil {
				setNested(template, value, append(slices.Clone(part.path), name)...)
			} else if m := descend(template, part.path); m != nil {
				delete(m, name)
			}
		}
	}
}
