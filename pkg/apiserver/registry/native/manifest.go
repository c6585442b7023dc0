package native

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// carriedBy is the object that a Manifest carries.
func carriedBy(m *fleet.Manifest) (*unstructured.Unstructured, error) {
	if len(m.Spec.Object.Raw) == 0 {
		return nil, errors.New("it is empty")
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(m.Spec.Object.Raw); err != nil {
		return nil, err
	}
	return out, nil
}

// defaultManifest says what becomes of what is carried.
func defaultManifest(obj runtime.Object) {
	m := obj.(*fleet.Manifest)
	carried, err := carriedBy(m)
	if m.Spec.Removal != "" || err != nil {
		return
	}
	m.Spec.Removal = fleet.RemovalDelete
	if m.Spec.Adopt || syncer.TakesAlong(carried.GroupVersionKind().GroupKind()) {
		m.Spec.Removal = fleet.RemovalKeep
	}
}

func validateManifest(obj, old runtime.Object) field.ErrorList {
	m := obj.(*fleet.Manifest)
	at := specPath.Child("object")
	carried, err := carriedBy(m)
	if err != nil {
		// What is in it is not repeated: it may be a Secret.
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be one object of Kubernetes, with apiVersion and kind")}
	}
	errs := carriedNames(carried, at)
	if removals := []fleet.ManifestRemoval{fleet.RemovalDelete, fleet.RemovalKeep}; !slices.Contains(removals, m.Spec.Removal) {
		errs = append(errs, field.NotSupported(specPath.Child("removal"), m.Spec.Removal, removals))
	}
	if old == nil {
		return errs
	}
	before, err := carriedBy(old.(*fleet.Manifest))
	if err != nil {
		return errs
	}
	for _, f := range []struct {
		at      *field.Path
		was, is string
	}{
		{at.Child("apiVersion"), before.GroupVersionKind().Group, carried.GroupVersionKind().Group},
		{at.Child("kind"), before.GetKind(), carried.GetKind()},
		{at.Child("metadata", "namespace"), before.GetNamespace(), carried.GetNamespace()},
		{at.Child("metadata", "name"), before.GetName(), carried.GetName()},
	} {
		if f.was != f.is {
			errs = append(errs, field.Forbidden(f.at, fmt.Sprintf("is %q for ever, of the version aside; make another Manifest for another object", f.was)))
		}
	}
	return errs
}

// carriedNames checks by what an object is found on a physical cluster. The rest is for that to say.
func carriedNames(carried *unstructured.Unstructured, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	gv, err := schema.ParseGroupVersion(carried.GetAPIVersion())
	switch {
	case err != nil || gv.Version == "":
		errs = append(errs, field.Invalid(at.Child("apiVersion"), carried.GetAPIVersion(), "must be a version, or <group>/<version>"))
	case gv.Group == ownGroups || strings.HasSuffix(gv.Group, "."+ownGroups):
		errs = append(errs, field.Invalid(at.Child("apiVersion"), carried.GetAPIVersion(), "is of the control plane itself, which physical clusters do not serve"))
	}
	if carried.IsList() {
		errs = append(errs, field.Invalid(at.Child("kind"), carried.GetKind(), "must be one object, not a list; make a Manifest for each item"))
	}
	metadata := at.Child("metadata")
	switch name := carried.GetName(); {
	case name == "" && carried.GetGenerateName() != "":
		errs = append(errs, field.Forbidden(metadata.Child("generateName"), "it would be another object with each attempt; give it a name"))
	case name == "":
		errs = append(errs, field.Required(metadata.Child("name"), "by it the object is found on a physical cluster"))
	default:
		for _, problem := range content.IsPathSegmentName(name) {
			errs = append(errs, field.Invalid(metadata.Child("name"), name, problem))
		}
	}
	if namespace := carried.GetNamespace(); namespace != "" {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(metadata.Child("namespace"), namespace, problem))
		}
	}
	return errs
}
