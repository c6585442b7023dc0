package auth

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"k8s.io/metrics/pkg/apis/metrics"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/roles"
)

// ownRoles add our kinds, and metrics, to what "view", and so "edit" and "admin", may read, and to what
// "edit", and so "admin", may write: the policy of a namespace, and the question where it
// would go. A policy there permits nothing that those above it do not.
func ownRoles() []rbacv1.ClusterRole {
	role := func(to string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
			Name:        "system:atoll:aggregate-to-" + to,
			Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults", "rbac.authorization.k8s.io/aggregate-to-" + to: "true"},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		}, Rules: rules}
	}
	ours := []string{placement.GroupName}
	return []rbacv1.ClusterRole{
		role("view",
			rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: ours, Resources: []string{"placements", "copies", "serviceimports", "podimports", "placementpolicies"}},
			// As metrics-server has it.
			rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{metrics.GroupName}, Resources: []string{"pods", "nodes"}}),
		role("edit",
			rbacv1.PolicyRule{Verbs: []string{"create", "update", "patch", "delete", "deletecollection"}, APIGroups: ours, Resources: []string{"placementpolicies"}},
			rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: ours, Resources: []string{"placementreviews"}}),
	}
}

// Defaults are the cluster roles and bindings that every logical cluster has: by
// name, shared, not to be changed.
type Defaults struct {
	ClusterRoles        map[string]*rbacv1.ClusterRole
	ClusterRoleBindings map[string]*rbacv1.ClusterRoleBinding
}

// NewDefaults are upstream's, with the aggregated roles filled in.
func NewDefaults() (*Defaults, error) {
	d := &Defaults{ClusterRoles: map[string]*rbacv1.ClusterRole{}, ClusterRoleBindings: map[string]*rbacv1.ClusterRoleBinding{}}
	parts := append(bootstrappolicy.ClusterRoles(), ownRoles()...)
	for i := range parts {
		d.ClusterRoles[parts[i].Name] = parts[i].DeepCopy()
	}
	for _, b := range bootstrappolicy.ClusterRoleBindings() {
		d.ClusterRoleBindings[b.Name] = b.DeepCopy()
	}
	// view goes into edit, edit into admin: names in this order.
	for _, name := range []string{"view", "edit", "admin"} {
		role := d.ClusterRoles[name]
		if role == nil || !roles.IsAggregated(role) {
			continue
		}
		var err error
		if role.Rules, err = roles.Aggregate(role, slices.Collect(maps.Values(d.ClusterRoles))); err != nil {
			return nil, err
		}
	}
	return d, nil
}
