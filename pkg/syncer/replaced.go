package syncer

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// replacedAnnotation, on a pod template below, has what the physical cluster does not
// permit of it, as the user wrote it: what is mirrored of the template says that again,
// so that `kubectl rollout undo` brings back what was there. A template of which nothing
// is taken has none: pods are started anew only if something changes for them.
const replacedAnnotation = "atoll.dev/replaced"

// maxReplaced bounds the annotation. What is longer is not given back.
const maxReplaced = 64 << 10

// templateContent is what of a template may be taken off it.
type templateContent struct {
	Labels      map[string]any `json:"labels,omitempty"`
	Annotations map[string]any `json:"annotations,omitempty"`
	Spec        map[string]any `json:"spec,omitempty"`
}

// contentOf copies what there is.
func contentOf(template map[string]any) templateContent {
	metadata := field(template, "metadata")
	return templateContent{
		Labels: copyMap(field(metadata, "labels")), Annotations: copyMap(field(metadata, "annotations")), Spec: copyMap(field(template, "spec")),
	}
}

func copyMap(m map[string]any) map[string]any { return deepCopy(m).(map[string]any) }

// note writes into a template which of its content is not there any more, or is
// something else.
func (c templateContent) note(template map[string]any) {
	now := contentOf(template)
	for _, part := range []struct{ before, after map[string]any }{
		{c.Labels, now.Labels}, {c.Annotations, now.Annotations}, {c.Spec, now.Spec},
	} {
		maps.DeleteFunc(part.before, func(name string, value any) bool {
			return placementv1alpha1.IsSystemKey(name) || name == "nodeName" || equality.Semantic.DeepEqual(part.after[name], value)
		})
	}
	if len(c.Labels)+len(c.Annotations)+len(c.Spec) == 0 {
		return
	}
	if b, err := json.Marshal(c); err == nil && len(b) <= maxReplaced {
		setNested(template, string(b), "metadata", "annotations", replacedAnnotation)
	}
}

// giveBack undoes note.
func giveBack(template map[string]any) {
	noted, _ := field(field(template, "metadata"), "annotations")[replacedAnnotation].(string)
	var c templateContent
	if noted == "" || unmarshal(noted, &c) != nil {
		return
	}
	for name, value := range c.Labels {
		setNested(template, value, "metadata", "labels", name)
	}
	for name, value := range c.Annotations {
		setNested(template, value, "metadata", "annotations", name)
	}
	for name, value := range c.Spec {
		setNested(template, value, "spec", name)
	}
}
