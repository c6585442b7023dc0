package history

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// most is how many templates are remembered: more than controllers keep by default.
const most = 32

// Templates are digests, the newest first, as they are in an annotation.
type Templates []string

// Parse reads an annotation.
func Parse(annotation string) Templates {
	if annotation == "" {
		return nil
	}
	return strings.Split(annotation, ",")
}

// String is the annotation.
func (t Templates) String() string { return strings.Join(t, ",") }

// With has a digest in front of the others.
func (t Templates) With(digest string) Templates {
	if len(t) > 0 && t[0] == digest {
		return t
	}
	all := append(Templates{digest}, slices.DeleteFunc(slices.Clone(t), func(d string) bool { return d == digest })...)
	return all[:min(len(all), most)]
}

// Has reports whether a template is one of them.
func (t Templates) Has(digest string) bool { return slices.Contains(t, digest) }

// Digest is that of a template.
func Digest(template corev1.PodTemplateSpec) (string, error) {
	object := &corev1.PodTemplate{Template: *template.DeepCopy()}
	corev1defaults.SetObjectDefaults_PodTemplate(object)
	t := &object.Template
	meta := t.ObjectMeta
	t.ObjectMeta.Reset()
	t.Name, t.Labels, t.Annotations, t.Finalizers = meta.Name, written(meta.Labels), written(meta.Annotations), meta.Finalizers
	t.Spec.DeprecatedServiceAccount = t.Spec.ServiceAccountName
	data, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encoding a pod template: %w", err)
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:16]), nil
}

// IsHash says that a label of a template is the hash of it, which controllers add: that of Deployments,
// and of custom kinds, whose label has another word in front.
func IsHash(key string) bool {
	return strings.HasSuffix(key, appsv1.DefaultDeploymentUniqueLabelKey)
}

// written are the keys that a user may have written.
func written(keys map[string]string) map[string]string {
	out := maps.Clone(keys)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return IsHash(key) || placementv1alpha1.IsSystemKey(key)
	})
	if len(out) == 0 {
		return nil
	}
	return out
}

// patch is the template in a ControllerRevision.
type patch struct {
	Patch                  string `json:"$patch"`
	corev1.PodTemplateSpec `json:",inline"`
}

// OfRevision is the template in the data of a ControllerRevision; false if there is none.
// What else is there, or there under the same name in other letters, is not: only what
// Revision makes of the template is the data that says no more.
func OfRevision(data []byte) (corev1.PodTemplateSpec, bool) {
	var r struct {
		Spec struct {
			Template *patch `json:"template"`
		} `json:"spec"`
	}
	if json.Unmarshal(data, &r) != nil || r.Spec.Template == nil {
		return corev1.PodTemplateSpec{}, false
	}
	return r.Spec.Template.PodTemplateSpec, true
}

// Revision is the data of a ControllerRevision that has a template: a patch that replaces
// that of its owner.
func Revision(template corev1.PodTemplateSpec) ([]byte, error) {
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": patch{"replace", template}}})
	if err != nil {
		return nil, fmt.Errorf("encoding a pod template: %w", err)
	}
	return data, nil
}
