package native

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// Serializer encodes our kinds. They have no protobuf encoding: who accepts it and JSON,
// as clients of metadata do, gets JSON, and is not promised what cannot be written.
func Serializer(codecs runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return withoutProtobuf{codecs}
}

type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(i runtime.SerializerInfo) bool {
		return i.MediaType == runtime.ContentTypeProtobuf
	})
}

// REST serves one kind.
type REST struct {
	*genericregistry.Store
	kind Kind
}

var (
	_ rest.ShortNamesProvider = &REST{}
	_ rest.CategoriesProvider = &REST{}
)

// ShortNames implements rest.ShortNamesProvider.
func (r *REST) ShortNames() []string { return r.kind.ShortNames }

// Categories implements rest.CategoriesProvider: kubectl get atoll.
func (r *REST) Categories() []string { return []string{"atoll"} }

// StatusREST serves the status subresource of one kind.
type StatusREST struct{ store *genericregistry.Store }

var _ rest.Patcher = &StatusREST{}

// New implements rest.Storage.
func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy implements rest.Storage; the store is destroyed with the main one.
func (r *StatusREST) Destroy() {}

// Get implements rest.Getter.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements rest.Updater; a status never creates its object.
func (r *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (r *StatusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

// NewREST makes the storage of a kind; status is nil if it has no such subresource.
func NewREST(scheme *runtime.Scheme, getter generic.RESTOptionsGetter, kind Kind) (main *REST, status *StatusREST, err error) {
	s := newStrategy(scheme, kind)
	store := &genericregistry.Store{
		NewFunc:                   kind.New,
		NewListFunc:               kind.NewList,
		DefaultQualifiedResource:  schema.GroupResource{Group: kind.Group, Resource: kind.Plural},
		SingularQualifiedResource: schema.GroupResource{Group: kind.Group, Resource: kind.Singular},
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		TableConvertor:            tableConvertor{kind: kind},
	}
	if kind.RootOnly {
		store.BeginCreate = func(ctx context.Context, _ runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
			if c, _ := scope.ClusterFrom(ctx); c != scope.Root {
				return nil, apierrors.NewForbidden(store.DefaultQualifiedResource, "",
					fmt.Errorf("%s objects exist in the logical cluster %q only", kind.Kind, scope.Root))
			}
			return func(context.Context, bool) {}, nil
		}
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: kind.Attrs}); err != nil {
		return nil, nil, fmt.Errorf("storage of %s: %w", store.DefaultQualifiedResource, err)
	}
	main = &REST{Store: store, kind: kind}
	if kind.Status == nil {
		return main, nil, nil
	}
	statusStore := *store
	statusStore.UpdateStrategy = statusStrategy{s}
	statusStore.ResetFieldsStrategy = statusStrategy{s}
	return main, &StatusREST{store: &statusStore}, nil
}
