package apiservices

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

func init() { install.Install(legacyscheme.Scheme) }

// Provider makes the storage of the group.
type Provider struct {
	// Reserved are the groups that no Service may have.
	Reserved sets.Set[string]
}

// GroupName is that of APIServices.
func (Provider) GroupName() string { return apiregistration.GroupName }

// NewRESTStorage makes the storage of the group.
func (p Provider) NewRESTStorage(_ serverstorage.APIResourceConfigSource, getter generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info := genericapiserver.NewDefaultAPIGroupInfo(apiregistration.GroupName, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
	main := etcd.NewREST(legacyscheme.Scheme, getter)
	main.CreateStrategy = created{main.CreateStrategy, p.Reserved}
	main.UpdateStrategy = updated{main.UpdateStrategy, p.Reserved}
	info.VersionedResourcesStorageMap[v1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"apiservices": main, "apiservices/status": etcd.NewStatusREST(legacyscheme.Scheme, main),
	}
	return info, nil
}

// Claimed reports whether applications bring an APIService for a group that the server itself
// serves: metrics-server does. It is kept, so that they are applied and removed as anywhere,
// and nobody is called by it; the group is not among those that are shown as local.
func Claimed(group string) bool { return group == "metrics.k8s.io" }

// claims says that an object is such an APIService.
func claims(obj runtime.Object) bool {
	s, ok := obj.(*apiregistration.APIService)
	return ok && s.Spec.Service != nil && Claimed(s.Spec.Group)
}

// available says what is true of an APIService that claims a group: the server serves it.
func available(obj runtime.Object) {
	if s, ok := obj.(*apiregistration.APIService); ok && claims(obj) {
		apiregistration.SetAPIServiceCondition(s, apiregistration.NewLocalAvailableAPIServiceCondition())
	}
}

func warnings(obj runtime.Object) []string {
	if !claims(obj) {
		return nil
	}
	return []string{fmt.Sprintf("spec.service: the control plane itself answers %s, from where pods run; this Service is not called", obj.(*apiregistration.APIService).Spec.Group)}
}

type created struct {
	rest.RESTCreateStrategy
	reserved sets.Set[string]
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s created) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.RESTCreateStrategy.PrepareForCreate(ctx, obj)
	available(obj)
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (s created) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	return append(s.RESTCreateStrategy.WarningsOnCreate(ctx, obj), warnings(obj)...)
}

// Validate implements rest.RESTCreateStrategy.
func (s created) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return append(s.RESTCreateStrategy.Validate(ctx, obj), refuse(obj, s.reserved)...)
}

type updated struct {
	rest.RESTUpdateStrategy
	reserved sets.Set[string]
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s updated) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	now, ok := obj.(*apiregistration.APIService)
	before, known := old.(*apiregistration.APIService)
	if !ok || !known {
		return
	}
	switch { // what was true of the other kind is not of this one
	case now.Spec.Service == nil && before.Spec.Service != nil:
		apiregistration.SetAPIServiceCondition(now, apiregistration.NewLocalAvailableAPIServiceCondition())
	case now.Spec.Service != nil && before.Spec.Service == nil:
		now.Status.Conditions = nil
	}
	available(now)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s updated) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	return append(s.RESTUpdateStrategy.WarningsOnUpdate(ctx, obj, old), warnings(obj)...)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s updated) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return append(s.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old), refuse(obj, s.reserved)...)
}

// refuse keeps the server's own groups from being handed over.
func refuse(obj runtime.Object, reserved sets.Set[string]) field.ErrorList {
	service, ok := obj.(*apiregistration.APIService)
	if !ok || service.Spec.Service == nil || !reserved.Has(service.Spec.Group) || claims(obj) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "service"),
		fmt.Sprintf("the group %q is served by the control plane itself; give your API a group of its own", service.Spec.Group))}
}

// Local is the APIService of a version that the server itself serves.
func Local(gv schema.GroupVersion) *apiregistration.APIService {
	priority := int32(17000)
	if gv.Group == "" {
		priority = 18000
	}
	condition := apiregistration.NewLocalAvailableAPIServiceCondition()
	condition.LastTransitionTime = metav1.Time{} // the same from every server
	return &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%s", gv.Version, gv.Group), Labels: map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
		Spec:       apiregistration.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority, VersionPriority: 15},
		Status:     apiregistration.APIServiceStatus{Conditions: []apiregistration.APIServiceCondition{condition}},
	}
}
