package auth

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func part(name, label string, rule rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}, Rules: []rbacv1.PolicyRule{rule}}
}

func TestWhatATenantAddsToEditIsSeenAndWorks(t *testing.T) {
	s := shared(t)
	ctx, other := s.NewCluster(t, "aggregate"), s.NewCluster(t, "aggregate-other")
	bind(ctx, t, s, "edit", "ed")
	bind(ctx, t, s, "admin", "ada")
	ed := as(s, "ed")
	if _, err := ed.RbacV1().Roles("default").List(ctx, metav1.ListOptions{}); err == nil {
		t.Fatal("edit may read roles")
	}
	roles := s.Kube.RbacV1().ClusterRoles()
	rule := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"list"}}
	if _, err := roles.Create(ctx, part("widgets-edit", "rbac.authorization.k8s.io/aggregate-to-edit", rule), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "edit may do what was added", func() error {
		_, err := ed.RbacV1().Roles("default").List(ctx, metav1.ListOptions{})
		return err
	})
	has := func(name string) (bool, error) {
		role, err := roles.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Equal(r.Verbs, rule.Verbs) && slices.Equal(r.Resources, rule.Resources)
		}), nil
	}
	for _, name := range []string{"edit", "admin"} {
		eventually(t, name+" shows what was added", func() error {
			if ok, err := has(name); !ok {
				return errors.Join(err, errors.New("not in its rules"))
			}
			return nil
		})
	}
	if role, err := roles.Get(other, "edit", metav1.GetOptions{}); err != nil || role.ResourceVersion != "1" {
		t.Errorf("the other logical cluster has %v, %v", role, err)
	}
	if err := roles.Delete(ctx, "widgets-edit", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"edit", "admin"} {
		eventually(t, name+" is the default again", func() error {
			role, err := roles.Get(ctx, name, metav1.GetOptions{})
			if err != nil || role.ResourceVersion != "1" {
				return fmt.Errorf("version %s, %v", role.ResourceVersion, err)
			}
			return nil
		})
	}
}

func TestATenantsOwnAggregatedRoleGetsItsParts(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "aggregate-own")
	roles := s.Kube.RbacV1().ClusterRoles()
	sum := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "sum"}, AggregationRule: &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"sum": "true"}}}}}
	if _, err := roles.Create(ctx, sum, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind(ctx, t, s, "sum", "sue")
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}
	if _, err := roles.Create(ctx, part("one", "sum", rule), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the part is in the sum", func() error {
		_, err := as(s, "sue").CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err
	})
}
