package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func testBirth(t *testing.T, s *server.Server) {
	lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(inRoot(t),
		&tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "birth"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lc.Status.Phase != tenancyv1alpha1.LogicalClusterReady || lc.Status.URL != s.URL+"/clusters/birth" ||
		!meta.IsStatusConditionTrue(lc.Status.Conditions, "Ready") {
		t.Errorf("status %+v", lc.Status)
	}
	ctx := inCluster(t, "birth")
	if _, err := s.Kube.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	cm, err := s.Kube.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(cm.Data["ca.crt"], "BEGIN CERTIFICATE") {
		t.Errorf("root CA %q", cm.Data)
	}
}

func testOwners(t *testing.T, s *server.Server) {
	root := inRoot(t)
	alice := []rbacv1.Subject{{Kind: "User", Name: "alice"}}
	lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(root, &tenancyv1alpha1.LogicalCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "owned"}, Spec: tenancyv1alpha1.LogicalClusterSpec{Owners: alice},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := inCluster(t, "owned")
	bindings := s.Kube.RbacV1().ClusterRoleBindings()
	subjects := func(want ...string) func() error {
		return func() error {
			binding, err := bindings.Get(ctx, "atoll:owners", metav1.GetOptions{})
			if err != nil {
				return err
			}
			var got []string
			for _, s := range binding.Subjects {
				got = append(got, s.Name)
			}
			if diff := cmp.Diff(want, got); diff != "" || binding.RoleRef.Name != "cluster-admin" {
				return fmt.Errorf("%s bound to %s", diff, binding.RoleRef.Name)
			}
			return nil
		}
	}
	if err := subjects("alice")(); err != nil {
		t.Errorf("when the creation returns: %v", err)
	}
	if err := bindings.Delete(ctx, "atoll:owners", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "a deleted binding is made again", subjects("alice"))

	change := func(owners string) {
		t.Helper()
		_, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Patch(root, lc.Name, types.MergePatchType,
			[]byte(`{"spec":{"owners":`+owners+`}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	change(`[{"kind":"User","name":"bob"},{"kind":"Group","name":"shop"}]`)
	server.Eventually(t, waitTimeout, "the binding follows the owners", subjects("bob", "shop"))
	change(`[]`)
	server.Eventually(t, waitTimeout, "no owners have no binding", func() error {
		return gone(func() error { return subjects()() })
	})
}

func testDeath(t *testing.T, s *server.Server) {
	doomed, neighbour := cluster(t, s, "death"), cluster(t, s, "death-2")
	for _, ctx := range []context.Context{doomed, neighbour} {
		makeNamespace(t, s, ctx, "web")
		makeConfigMap(t, s, ctx, "web", "x")
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		if _, err := s.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deleteCluster(t, s, "death")
	server.Eventually(t, waitTimeout, "the logical cluster is gone", func() error { return clusterGone(t, s, "death") })

	if _, err := s.Kube.CoreV1().ConfigMaps("web").Get(neighbour, "x", metav1.GetOptions{}); err != nil {
		t.Errorf("in another logical cluster: %v", err)
	}
	if _, err := s.Kube.RbacV1().ClusterRoles().Get(neighbour, "x", metav1.GetOptions{}); err != nil {
		t.Errorf("in another logical cluster: %v", err)
	}
	// The next of the same name begins empty.
	again := cluster(t, s, "death")
	if err := gone(func() error {
		_, err := s.Kube.CoreV1().Namespaces().Get(again, "web", metav1.GetOptions{})
		return err
	}); err != nil {
		t.Errorf("namespace of the predecessor: %v", err)
	}
	roles, err := s.Kube.RbacV1().ClusterRoles().List(again, metav1.ListOptions{LabelSelector: "kubernetes.io/bootstrapping!=rbac-defaults"})
	if err != nil || len(roles.Items) != 0 {
		t.Errorf("cluster roles of the predecessor: %v, %v", roles.Items, err)
	}
	maps, err := s.Kube.CoreV1().ConfigMaps("").List(again, metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	if err != nil || len(maps.Items) != 0 {
		t.Errorf("config maps %v, %v; want root CAs alone", maps.Items, err)
	}
}

func testHeldDeath(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "held")
	held, err := s.Kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.org/hold"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleteCluster(t, s, "held")
	server.Eventually(t, waitTimeout, "the condition names what is left", func() error {
		lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(inRoot(t), "held", metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(lc.Status.Conditions, "ContentRemoved")
		if c == nil || c.Message != "Left: clusterroles.rbac.authorization.k8s.io (1). Held by finalizers: example.org/hold (1)." || lc.Status.Phase != tenancyv1alpha1.LogicalClusterTerminating {
			return fmt.Errorf("status %+v", lc.Status)
		}
		return nil
	})
	_, err = s.Kube.RbacV1().ClusterRoles().Patch(ctx, held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "the logical cluster is gone", func() error { return clusterGone(t, s, "held") })
}

func testRootStays(t *testing.T, s *server.Server) {
	root := inRoot(t)
	if err := s.Atoll.TenancyV1alpha1().LogicalClusters().Delete(root, "root", metav1.DeleteOptions{}); err == nil {
		t.Error("root was deleted")
	}
	lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(root, "root", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lc.DeletionTimestamp != nil || lc.Status.Phase != tenancyv1alpha1.LogicalClusterReady {
		t.Errorf("root is %+v", lc)
	}
	for _, namespace := range []string{"default", "atoll-system"} {
		server.Eventually(t, waitTimeout, "there is the default account of "+namespace, func() error {
			_, err := s.Kube.CoreV1().ServiceAccounts(namespace).Get(root, "default", metav1.GetOptions{})
			return err
		})
	}
}

func deleteCluster(t *testing.T, s *server.Server, name string) {
	t.Helper()
	if err := s.Atoll.TenancyV1alpha1().LogicalClusters().Delete(inRoot(t), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func clusterGone(t *testing.T, s *server.Server, name string) error {
	var status tenancyv1alpha1.LogicalClusterStatus
	err := gone(func() error {
		lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(inRoot(t), name, metav1.GetOptions{})
		if err == nil {
			status = lc.Status
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: %+v", err, status)
	}
	return nil
}
