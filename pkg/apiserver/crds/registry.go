package crds

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// publishTimeout is how long a write of a definition waits until this server
// serves it. That takes milliseconds; a write never fails for it.
const publishTimeout = 2 * time.Second

// APIGroup is the group of CustomResourceDefinitions.
func APIGroup(getter generic.RESTOptionsGetter, definitions *Definitions) (*genericapiserver.APIGroupInfo, error) {
	store, err := customresourcedefinition.NewREST(apiextensionsapiserver.Scheme, getter)
	if err != nil {
		return nil, fmt.Errorf("storage of CustomResourceDefinitions: %w", err)
	}
	store.CreateStrategy, store.UpdateStrategy = validatedCreation{store.CreateStrategy}, validatedUpdate{store.UpdateStrategy}
	info := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, apiextensionsapiserver.Scheme, metav1.ParameterCodec, apiextensionsapiserver.Codecs)
	info.PrioritizedVersions = []schema.GroupVersion{apiextensionsv1.SchemeGroupVersion}
	info.VersionedResourcesStorageMap[apiextensionsv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"customresourcedefinitions":        &publishing{REST: store, definitions: definitions},
		"customresourcedefinitions/status": customresourcedefinition.NewStatusREST(apiextensionsapiserver.Scheme, store),
	}
	return &info, nil
}

// publishing is upstream's storage, whose writes return when this server serves
// what they wrote: the next request may be about a custom resource.
type publishing struct {
	*customresourcedefinition.REST
	definitions *Definitions
}

// Create implements rest.Creater.
func (p *publishing) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	done, err := fairness.Compute(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // an answer
	}
	defer done()
	created, err := p.REST.Create(ctx, obj, validate, options)
	if err == nil && !dryrun.IsDryRun(options.DryRun) {
		p.wait(ctx, created, decided)
	}
	return created, err
}

// Update implements rest.Updater.
func (p *publishing) Update(ctx context.Context, name string, update rest.UpdatedObjectInfo, validate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	done, err := fairness.Compute(ctx)
	if err != nil {
		return nil, false, err //nolint:wrapcheck // an answer
	}
	defer done()
	obj, created, err := p.REST.Update(ctx, name, update, validate, validateUpdate, forceAllowCreate, options)
	if err == nil && !dryrun.IsDryRun(options.DryRun) {
		p.wait(ctx, obj, decided)
	}
	return obj, created, err
}

// Delete implements rest.GracefulDeleter.
func (p *publishing) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, gone, err := p.REST.Delete(ctx, name, validate, options)
	if err == nil && !dryrun.IsDryRun(options.DryRun) {
		p.wait(ctx, obj, func(d *Definition) bool { return d == nil || !d.DeletionTimestamp.IsZero() })
	}
	return obj, gone, err
}

// DeleteCollection implements rest.CollectionDeleter. Upstream's would delete
// definitions without the finalizer that takes their objects along.
func (p *publishing) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	list, err := p.List(ctx, which)
	if err != nil {
		return nil, err
	}
	definitions, ok := list.(*apiextensions.CustomResourceDefinitionList)
	if !ok {
		return nil, fmt.Errorf("listing CustomResourceDefinitions: got a %T", list)
	}
	for i := range definitions.Items {
		if _, _, err := p.Delete(ctx, definitions.Items[i].Name, validate, options.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return list, nil
}

// decided reports whether the lifecycle has said what becomes of the names.
func decided(d *Definition) bool {
	return d != nil && apihelpers.FindCRDCondition(d.CustomResourceDefinition, apiextensionsv1.NamesAccepted) != nil
}

// wait returns when the informer has what was written, and f holds.
func (p *publishing) wait(ctx context.Context, obj runtime.Object, f func(*Definition) bool) {
	m, err := meta.Accessor(obj)
	if err != nil || !p.definitions.HasSynced() {
		return
	}
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return
	}
	defer fairness.Suspend(ctx)()
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	p.definitions.Wait(ctx, controller.Request{Cluster: c, Name: m.GetName()}, since(version(m.GetResourceVersion()), f))
}

// since holds where f does for what is not older than what was written: that may be the same
// definition as it was, or one that had its name before.
func since(written uint64, f func(*Definition) bool) func(*Definition) bool {
	return func(d *Definition) bool { return (d == nil || version(d.ResourceVersion) >= written) && f(d) }
}
