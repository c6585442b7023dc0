package edit

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// ownGroups are those of the control plane, of which a Manifest carries nothing.
const ownGroups = "atoll.dev"

// recommendedLabels is the prefix of the labels by which applications are found, whatever made them.
const recommendedLabels = "app.kubernetes.io/"

// lastApplied is what kubectl apply keeps: the object once more, of another place.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// serverMetadata are the fields of metadata that a server writes, which mean nothing in another place.
var serverMetadata = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "ownerReferences",
	"resourceVersion", "selfLink", "uid",
}

// ReadObject is an object, or a list of objects, as it was read.
type ReadObject struct {
	Object runtime.Unstructured
	// Source names the file.
	Source string
}

// Manifests says how Manifests are made of the objects that they are to carry.
type Manifests struct {
	// Namespace is the one of root that they are in.
	Namespace string
	Adopt     bool
	Removal   fleetv1alpha1.ManifestRemoval
	// ObjectNamespace is that of the objects which name none and are of a kind in namespaces; empty
	// to leave them as they are.
	ObjectNamespace string
	// Namespaced says that a kind is known to be in namespaces.
	Namespaced func(schema.GroupVersionKind) bool
}

// carried is an object that a Manifest is made of.
type carried struct {
	*unstructured.Unstructured
	place string
}

// String names it for people. What else is in it is not repeated: it may be a Secret.
func (c carried) String() string {
	name := c.GetName()
	if name == "" {
		name = c.GetGenerateName()
	}
	if c.GetNamespace() != "" {
		name = c.GetNamespace() + "/" + name
	}
	if name = strings.TrimSpace(c.GetKind() + " " + name); name == "" {
		return c.place
	}
	return name + " (" + c.place + ")"
}

func (c carried) identity() identity {
	gvk := c.GroupVersionKind()
	return identity{gvk.Group, gvk.Kind, c.GetNamespace(), c.GetName()}
}

// Of makes a Manifest of each object, in their order.
func (m Manifests) Of(read []ReadObject) ([]*unstructured.Unstructured, error) {
	objects, err := each(read)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, errors.New("there is no object in what was read")
	}
	var problems []error
	places, ids := map[identity]string{}, make([]identity, len(objects))
	for i, c := range objects {
		if err := carriable(c); err != nil {
			problems = append(problems, fmt.Errorf("%s %w", c, err))
			continue
		}
		objects[i].Unstructured = m.cleaned(c.Unstructured)
		ids[i] = objects[i].identity()
		if before, ok := places[ids[i]]; ok {
			problems = append(problems, fmt.Errorf("%s is in %s, too; leave one of them out", objects[i], before))
		}
		places[ids[i]] = c.place
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, len(objects))
	for i, name := range manifestNames(ids) {
		if out[i], err = m.manifest(name, objects[i].Unstructured); err != nil {
			return nil, fmt.Errorf("making a Manifest of %s: %w", objects[i], err)
		}
	}
	return out, nil
}

// each are the objects that were read, those in lists one by one.
func each(read []ReadObject) ([]carried, error) {
	var out []carried
	count := map[string]int{}
	var add func(obj runtime.Object, source string) error
	add = func(obj runtime.Object, source string) error {
		if list, ok := obj.(runtime.Unstructured); ok && list.IsList() {
			return list.EachListItem(func(item runtime.Object) error { return add(item, source) })
		}
		count[source]++
		place := fmt.Sprintf("%s, object %d", source, count[source])
		object, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s is no object of Kubernetes", place)
		}
		out = append(out, carried{object, place})
		return nil
	}
	for _, r := range read {
		if err := add(r.Object, r.Source); err != nil {
			return nil, fmt.Errorf("reading %s: %w", r.Source, err)
		}
	}
	return out, nil
}

// carriable says why an object cannot be carried, as far as that does not depend on where it goes.
func carriable(c carried) error {
	gv, err := schema.ParseGroupVersion(c.GetAPIVersion())
	switch {
	case c.GetAPIVersion() == "":
		return errors.New("has no apiVersion; each object begins with apiVersion and kind")
	case c.GetKind() == "":
		return errors.New("has no kind; each object begins with apiVersion and kind")
	case err != nil || gv.Version == "":
		return fmt.Errorf("has the apiVersion %q; it is a version, or <group>/<version>", c.GetAPIVersion())
	case gv.Group == ownGroups || strings.HasSuffix(gv.Group, "."+ownGroups):
		return fmt.Errorf("is of %s, the control plane itself, which physical clusters do not serve; apply it without a Manifest", gv.Group)
	case gv.Group == "kustomize.config.k8s.io":
		return errors.New("is for kustomize; name its directory with -k")
	case c.GetName() == "" && c.GetGenerateName() != "":
		return errors.New("has generateName and no name: it would be another object with each attempt; give it metadata.name")
	case c.GetName() == "":
		return errors.New("has no name; give it metadata.name, by which it is found on a physical cluster")
	}
	return nil
}

// cleaned is an object without what the server wrote into it that it was read from.
func (m Manifests) cleaned(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := object.DeepCopy()
	delete(out.Object, "status")
	for _, field := range serverMetadata {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", lastApplied)
	if annotations, ok, err := unstructured.NestedMap(out.Object, "metadata", "annotations"); ok && err == nil && len(annotations) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	if m.ObjectNamespace != "" && out.GetNamespace() == "" && m.Namespaced(out.GroupVersionKind()) {
		out.SetNamespace(m.ObjectNamespace)
	}
	return out
}

// manifest carries an object.
func (m Manifests) manifest(name string, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&fleetv1alpha1.Manifest{
		TypeMeta:   typeOf(fleetv1alpha1.SchemeGroupVersion.String(), "Manifest"),
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: name, Labels: selecting(object.GetLabels())},
		Spec:       fleetv1alpha1.ManifestSpec{Object: runtime.RawExtension{Raw: raw}, Adopt: m.Adopt, Removal: m.Removal},
	})
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// selecting are the labels of an object by which its Manifest is selected, too. Others mean something to
// whoever selects the object: a Manifest is none.
func selecting(of map[string]string) map[string]string {
	out := maps.Clone(of)
	maps.DeleteFunc(out, func(key, value string) bool {
		return !strings.HasPrefix(key, recommendedLabels) || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0
	})
	return out
}
