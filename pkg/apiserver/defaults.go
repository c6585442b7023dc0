package apiserver

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	systemclasses "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/atoll-dev/atoll/pkg/apis/install"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/defaults"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/apiservices"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/builtin"
)

// withDefaults lays the default roles and bindings, the priority classes of the
// system, and the APIServices of what the server serves, over what getter stores.
func withDefaults(getter generic.RESTOptionsGetter, d *auth.Defaults, born func(context.Context, logicalcluster.Name) metav1.Time) (generic.RESTOptionsGetter, error) {
	roles, err := internal[*rbac.ClusterRole](rbac.SchemeGroupVersion, maps.Values(d.ClusterRoles))
	if err != nil {
		return nil, err
	}
	bindings, err := internal[*rbac.ClusterRoleBinding](rbac.SchemeGroupVersion, maps.Values(d.ClusterRoleBindings))
	if err != nil {
		return nil, err
	}
	priorities, err := internal[*scheduling.PriorityClass](scheduling.SchemeGroupVersion, slices.Values(systemclasses.SystemPriorityClasses()))
	if err != nil {
		return nil, err
	}
	var local []runtime.Object
	for _, gv := range slices.Concat(builtin.GroupVersions(), install.GroupVersions(), []schema.GroupVersion{apiextensionsv1.SchemeGroupVersion}) {
		if !apiservices.Claimed(gv.Group) {
			local = append(local, apiservices.Local(gv))
		}
	}
	var sets []*defaults.Set
	for resource, objects := range map[schema.GroupResource][]runtime.Object{
		rbacv1.Resource("clusterroles"): roles, rbacv1.Resource("clusterrolebindings"): bindings,
		schedulingv1.Resource("priorityclasses"): priorities, apiregistrationv1.Resource("apiservices"): local,
	} {
		set, err := defaults.NewSet(resource, objects...)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return defaults.Getter(getter, defaults.Options{Born: born, Raw: isSystemRequest}, sets...), nil
}

// internal converts objects to the type that registries are about, as if they had
// been created.
func internal[I, V runtime.Object](gv schema.GroupVersion, objects iter.Seq[V]) ([]runtime.Object, error) {
	var out []runtime.Object
	for obj := range objects {
		obj := obj.DeepCopyObject()
		legacyscheme.Scheme.Default(obj)
		converted, err := legacyscheme.Scheme.ConvertToVersion(obj, gv)
		if err != nil {
			return nil, fmt.Errorf("converting a default of %s: %w", gv.Group, err)
		}
		if _, ok := converted.(I); !ok {
			return nil, fmt.Errorf("converting a default of %s: got %T", gv.Group, converted)
		}
		out = append(out, converted)
	}
	return out, nil
}

// isSystemRequest says whether the server asks itself.
func isSystemRequest(ctx context.Context) bool {
	u, ok := genericapirequest.UserFrom(ctx)
	return ok && auth.IsSystem(u)
}

// born is when a logical cluster was made.
func (l *logicalClusters) born(ctx context.Context, name logicalcluster.Name) metav1.Time {
	if cluster, err := l.find(ctx, name, func(*tenancy.LogicalCluster) bool { return true }); cluster != nil && err == nil {
		return cluster.CreationTimestamp
	}
	return metav1.Time{}
}
