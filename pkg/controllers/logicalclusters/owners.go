package logicalclusters

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// OwnersBinding is the ClusterRoleBinding inside a logical cluster that makes
// its owners cluster-admin.
const OwnersBinding = "atoll:owners"

var ownersRole = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}

// ownersOnly keeps the bindings of owners. A field selector cannot do it: to the
// storage, a name without a namespace means one object, of one logical cluster.
func ownersOnly(obj runtime.Object) (*rbacv1.ClusterRoleBinding, error) {
	binding, ok := obj.(*rbacv1.ClusterRoleBinding)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	if binding.Name != OwnersBinding {
		return nil, nil
	}
	binding.ManagedFields = nil
	return binding, nil
}

// subjects are owners with the defaults that the server gives.
func subjects(owners []rbacv1.Subject) []rbacv1.Subject {
	out := make([]rbacv1.Subject, len(owners))
	for i, s := range owners {
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
		out[i] = s
	}
	return out
}

// bound says whether the binding, nil for none, gives the owners what is theirs.
func bound(binding *rbacv1.ClusterRoleBinding, owners []rbacv1.Subject) bool {
	if binding == nil {
		return len(owners) == 0
	}
	return len(owners) > 0 && binding.RoleRef == ownersRole &&
		apiequality.Semantic.DeepEqual(subjects(binding.Subjects), subjects(owners))
}

// bindOwners makes the binding say what it should, in the logical cluster of ctx.
func (c Config) bindOwners(ctx context.Context, owners []rbacv1.Subject) error {
	client := c.Kube.RbacV1().ClusterRoleBindings()
	want := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: OwnersBinding},
		RoleRef:    ownersRole,
		Subjects:   subjects(owners),
	}
	if len(owners) > 0 {
		_, err := client.Create(ctx, want, metav1.CreateOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating cluster role binding %s: %w", OwnersBinding, err)
		}
	}
	have, err := client.Get(ctx, OwnersBinding, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && len(owners) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("reading cluster role binding %s: %w", OwnersBinding, err)
	case bound(have, owners):
		return nil
	case len(owners) == 0 || have.RoleRef != ownersRole: // a role cannot be changed
		err = client.Delete(ctx, OwnersBinding, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting cluster role binding %s: %w", OwnersBinding, err)
		}
		if len(owners) == 0 {
			return nil
		}
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	default:
		have = have.DeepCopy()
		have.Subjects = want.Subjects
		_, err = client.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing cluster role binding %s: %w", OwnersBinding, err)
	}
	return nil
}
