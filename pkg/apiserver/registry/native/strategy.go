package native

import (
	"context"
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Kind describes one kind of our own.
type Kind struct {
	schema.GroupVersion
	Kind       string
	Plural     string
	Singular   string
	ShortNames []string
	Namespaced bool
	// RootOnly kinds exist in the logical cluster "root" only.
	RootOnly bool

	New, NewList func() runtime.Object
	// Spec and Status return pointers to the parts of an object. A kind without
	// a status subresource has no Status.
	Spec   func(runtime.Object) any
	Status func(runtime.Object) any
	// OnCreate completes a new object, Default fills what the user left out, Carry keeps
	// what the server has put into the spec (old is nil for a new object).
	OnCreate func(runtime.Object)
	Default  func(runtime.Object)
	Carry    func(obj, old runtime.Object)
	// Stamp sets in a status that is written what the server knows better than who writes it.
	Stamp func(obj, old runtime.Object)
	// Validate checks a new object (old is nil) or an update.
	Validate func(obj, old runtime.Object) field.ErrorList
	// Columns and Row print the table; the first column is always the name.
	Columns []metav1.TableColumnDefinition
	Row     func(runtime.Object) []any
	// Attrs are what selectors see of an object. Default: its labels, name and namespace.
	Attrs storage.AttrFunc
}

// strategy implements upstream's create, update and delete strategies.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind Kind
}

func newStrategy(typer runtime.ObjectTyper, kind Kind) strategy {
	return strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, kind: kind}
}

var (
	_ rest.RESTCreateStrategy  = strategy{}
	_ rest.RESTUpdateStrategy  = strategy{}
	_ rest.RESTDeleteStrategy  = strategy{}
	_ rest.ResetFieldsStrategy = strategy{}
	_ rest.RESTUpdateStrategy  = statusStrategy{}
)

func (s strategy) NamespaceScoped() bool { return s.kind.Namespaced }

func (s strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if s.kind.Status != nil {
		clearPart(s.kind.Status(obj))
	}
	if s.kind.OnCreate != nil {
		s.kind.OnCreate(obj)
	}
	s.setDefaults(obj, nil)
	accessor(obj).SetGeneration(1)
}

func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.kind.Status != nil {
		copyPart(s.kind.Status(obj), s.kind.Status(old))
	}
	s.setDefaults(obj, old)
	if !apiequality.Semantic.DeepEqual(s.kind.Spec(obj), s.kind.Spec(old)) {
		accessor(obj).SetGeneration(accessor(old).GetGeneration() + 1)
	}
}

func (s strategy) setDefaults(obj, old runtime.Object) {
	if s.kind.Default != nil {
		s.kind.Default(obj)
	}
	if s.kind.Carry != nil {
		s.kind.Carry(obj, old)
	}
}

func (s strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return s.validate(obj, nil)
}

func (s strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessorUpdate(accessor(obj), accessor(old), field.NewPath("metadata"))
	return append(errs, s.validate(obj, old)...)
}

func (s strategy) validate(obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		errs = apivalidation.ValidateObjectMetaAccessor(accessor(obj), s.kind.Namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	}
	if s.kind.Validate != nil {
		errs = append(errs, s.kind.Validate(obj, old)...)
	}
	return errs
}

func (s strategy) AllowCreateOnUpdate(context.Context) bool      { return false }
func (s strategy) AllowUnconditionalUpdate(context.Context) bool { return true }
func (s strategy) Canonicalize(runtime.Object)                   {}

func (s strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (s strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields tells server-side apply what this endpoint does not change.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.kind.Status == nil {
		return nil
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(s.kind.GroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}
}

// statusStrategy is the strategy of the status subresource: all but the status
// and the metadata of controllers stays.
type statusStrategy struct{ strategy }

func (s statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	copyPart(s.kind.Spec(obj), s.kind.Spec(old))
	accessor(obj).SetLabels(accessor(old).GetLabels())
	accessor(obj).SetGeneration(accessor(old).GetGeneration())
	if s.kind.Stamp != nil {
		s.kind.Stamp(obj, old)
	}
}

func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(s.kind.GroupVersion.String()): fieldpath.NewSet(
			fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels")),
	}
}

func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err) // every kind of this package has metadata
	}
	return m
}

// clearPart sets what p points to, to its zero value.
func clearPart(p any) { reflect.ValueOf(p).Elem().SetZero() }

// copyPart sets what dst points to, to what src points to.
func copyPart(dst, src any) { reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem()) }
