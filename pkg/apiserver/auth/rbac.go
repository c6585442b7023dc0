package auth

import (
	"context"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// RBAC holds the roles and bindings of all logical clusters.
type RBAC struct {
	*rbac.RBACAuthorizer

	roles               *controller.Informer[*rbacv1.Role]
	roleBindings        *controller.Informer[*rbacv1.RoleBinding]
	clusterRoles        *controller.Informer[*rbacv1.ClusterRole]
	clusterRoleBindings *controller.Informer[*rbacv1.ClusterRoleBinding]

	defaults *Defaults
	// nonMembers are the default bindings for those who are no members.
	nonMembers map[string]*rbacv1.ClusterRoleBinding
}

// NewRBAC makes the authorizer; it denies until Run has synced.
func NewRBAC(client kubernetes.Interface, d *Defaults) *RBAC {
	r := &RBAC{
		defaults: d, nonMembers: map[string]*rbacv1.ClusterRoleBinding{},
		roles: controller.NewInformer("rbac-roles", &rbacv1.Role{},
			controller.Lists(client.RbacV1().Roles("")), controller.InformerOptions[*rbacv1.Role]{}),
		roleBindings: controller.NewInformer("rbac-rolebindings", &rbacv1.RoleBinding{},
			controller.Lists(client.RbacV1().RoleBindings("")), controller.InformerOptions[*rbacv1.RoleBinding]{
				Indexers: subjectIndex(func(b *rbacv1.RoleBinding) []rbacv1.Subject { return b.Subjects }, func(string) bool { return false })}),
		clusterRoles: controller.NewInformer("rbac-clusterroles", &rbacv1.ClusterRole{},
			controller.Lists(client.RbacV1().ClusterRoles()), controller.InformerOptions[*rbacv1.ClusterRole]{}),
		clusterRoleBindings: controller.NewInformer("rbac-clusterrolebindings", &rbacv1.ClusterRoleBinding{},
			controller.Lists(client.RbacV1().ClusterRoleBindings()), controller.InformerOptions[*rbacv1.ClusterRoleBinding]{
				Indexers: subjectIndex(func(b *rbacv1.ClusterRoleBinding) []rbacv1.Subject { return b.Subjects }, func(name string) bool { return d.ClusterRoleBindings[name] != nil })}),
	}
	for name, b := range d.ClusterRoleBindings {
		if b = forNonMembers(b); b != nil {
			r.nonMembers[name] = b
		}
	}
	r.RBACAuthorizer = rbac.New(r, r, r, r)
	return r
}

// Run keeps the roles and bindings until ctx ends.
func (r *RBAC) Run(ctx context.Context) {
	go r.roles.Run(ctx)
	go r.roleBindings.Run(ctx)
	go r.clusterRoles.Run(ctx)
	r.clusterRoleBindings.Run(ctx)
}

// WaitForSync returns when the authorizer knows all roles and bindings.
func (r *RBAC) WaitForSync(ctx context.Context) error {
	for _, wait := range []func(context.Context) error{
		r.roles.WaitForSync, r.roleBindings.WaitForSync, r.clusterRoles.WaitForSync, r.clusterRoleBindings.WaitForSync,
	} {
		if err := wait(ctx); err != nil {
			return fmt.Errorf("waiting for roles and bindings: %w", err)
		}
	}
	return nil
}

func request(ctx context.Context, namespace, name string) controller.Request {
	c, _ := scope.ClusterFrom(ctx)
	return controller.Request{Cluster: c, Namespace: namespace, Name: name}
}

// GetRole implements upstream's getter.
func (r *RBAC) GetRole(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	if role, ok := r.roles.Get(request(ctx, namespace, name)); ok {
		return role, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
}

// ListRoleBindings implements upstream's lister.
func (r *RBAC) ListRoleBindings(ctx context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, nil
	}
	return r.roleBindings.ListNamespace(c, namespace), nil
}

// GetClusterRole implements upstream's getter.
func (r *RBAC) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	if role, ok := r.clusterRoles.Get(request(ctx, "", name)); ok {
		return role, nil
	}
	if role := r.defaults.ClusterRoles[name]; role != nil {
		return role, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
}

// ListClusterRoleBindings implements upstream's lister, for the user of within.
func (r *RBAC) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return slices.Collect(maps.Values(r.defaults.ClusterRoleBindings)), nil
	}
	member, _ := ctx.Value(memberKey{}).(bool)
	stored := r.clusterRoleBindings.ListCluster(c)
	bindings := make([]*rbacv1.ClusterRoleBinding, 0, len(stored)+len(r.defaults.ClusterRoleBindings))
	changed := map[string]bool{}
	for _, b := range stored {
		if r.defaults.ClusterRoleBindings[b.Name] != nil {
			changed[b.Name] = true
			if !member {
				b = forNonMembers(b)
			}
		}
		if b != nil {
			bindings = append(bindings, b)
		}
	}
	defaults := r.defaults.ClusterRoleBindings
	if !member {
		defaults = r.nonMembers
	}
	for name, b := range defaults {
		if !changed[name] {
			bindings = append(bindings, b)
		}
	}
	return bindings, nil
}

// ClusterRoles is the informer over all logical clusters; Run runs it.
func (r *RBAC) ClusterRoles() *controller.Informer[*rbacv1.ClusterRole] { return r.clusterRoles }

// Defaults are what every logical cluster has.
func (r *RBAC) Defaults() *Defaults { return r.defaults }
