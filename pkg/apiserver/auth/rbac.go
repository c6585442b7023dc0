package auth

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

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

	bootstrapRoles    map[string]*rbacv1.ClusterRole
	bootstrapBindings []*rbacv1.ClusterRoleBinding
}

// NewRBAC makes the authorizer; it denies until Run has synced.
func NewRBAC(client kubernetes.Interface) (*RBAC, error) {
	r := &RBAC{
		roles: controller.NewInformer("rbac-roles", &rbacv1.Role{},
			controller.Lists(client.RbacV1().Roles("")), controller.InformerOptions[*rbacv1.Role]{}),
		roleBindings: controller.NewInformer("rbac-rolebindings", &rbacv1.RoleBinding{},
			controller.Lists(client.RbacV1().RoleBindings("")), controller.InformerOptions[*rbacv1.RoleBinding]{}),
		clusterRoles: controller.NewInformer("rbac-clusterroles", &rbacv1.ClusterRole{},
			controller.Lists(client.RbacV1().ClusterRoles()), controller.InformerOptions[*rbacv1.ClusterRole]{}),
		clusterRoleBindings: controller.NewInformer("rbac-clusterrolebindings", &rbacv1.ClusterRoleBinding{},
			controller.Lists(client.RbacV1().ClusterRoleBindings()), controller.InformerOptions[*rbacv1.ClusterRoleBinding]{}),
	}
	for _, b := range bootstrappolicy.ClusterRoleBindings() {
		r.bootstrapBindings = append(r.bootstrapBindings, b.DeepCopy())
	}
	var err error
	if r.bootstrapRoles, err = bootstrapRoles(); err != nil {
		return nil, err
	}
	r.RBACAuthorizer = rbac.New(r, r, r, r)
	return r, nil
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

// bootstrapRoles are upstream's, with the aggregated ones filled in: no
// controller does it for roles that exist in memory only.
func bootstrapRoles() (map[string]*rbacv1.ClusterRole, error) {
	roles := map[string]*rbacv1.ClusterRole{}
	for _, r := range bootstrappolicy.ClusterRoles() {
		roles[r.Name] = r.DeepCopy()
	}
	// view goes into edit, edit into admin: names in this order.
	for _, name := range []string{"view", "edit", "admin"} {
		role := roles[name]
		if role == nil || role.AggregationRule == nil {
			continue
		}
		role.Rules = nil
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return nil, fmt.Errorf("aggregating the role %s: %w", name, err)
			}
			for _, part := range bootstrappolicy.ClusterRoles() {
				if part.Name != name && selector.Matches(labels.Set(part.Labels)) {
					role.Rules = append(role.Rules, roles[part.Name].Rules...)
				}
			}
		}
	}
	return roles, nil
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
	if role := r.bootstrapRoles[name]; role != nil {
		return role, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
}

// ListClusterRoleBindings implements upstream's lister.
func (r *RBAC) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return r.bootstrapBindings, nil
	}
	own := r.clusterRoleBindings.ListCluster(c)
	return append(own[:len(own):len(own)], r.bootstrapBindings...), nil
}
