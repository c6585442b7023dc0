package auth

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/roles"
)

// viewRole adds our kinds to what "view", and so "edit" and "admin", may read.
const viewRole = "system:atoll:aggregate-to-view"

// Defaults are the cluster roles and bindings that every logical cluster has: by
// name, shared, not to be changed.
type Defaults struct {
	ClusterRoles        map[string]*rbacv1.ClusterRole
	ClusterRoleBindings map[string]*rbacv1.ClusterRoleBinding
}

// NewDefaults are upstream's, with the aggregated roles filled in.
func NewDefaults() (*Defaults, error) {
	d := &Defaults{ClusterRoles: map[string]*rbacv1.ClusterRole{}, ClusterRoleBindings: map[string]*rbacv1.ClusterRoleBinding{}}
	parts := bootstrappolicy.ClusterRoles()
	parts = append(parts, rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: viewRole, Labels: map[string]string{
			"kubernetes.io/bootstrapping": "rbac-defaults", "rbac.authorization.k8s.io/aggregate-to-view": "true",
		}, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{placement.GroupName}, Resources: []string{"placements", "copies"}}},
	})
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
