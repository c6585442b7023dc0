package controllers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/test/framework/server"
)

func testBackground(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "background")
	owner := makeConfigMap(t, s, ctx, "default", "owner")
	child := makeConfigMap(t, s, ctx, "default", "child", ownedBy(owner))
	grandchild := makeConfigMap(t, s, ctx, "default", "grandchild", blocking(ownedBy(child)))
	other := makeConfigMap(t, s, ctx, "default", "other")
	deleteConfigMap(t, s, ctx, owner, metav1.DeletePropagationBackground)
	server.Eventually(t, waitTimeout, "the child is gone", func() error { return configMapGone(s, ctx, child) })
	server.Eventually(t, waitTimeout, "the grandchild is gone", func() error { return configMapGone(s, ctx, grandchild) })
	if err := configMapThere(s, ctx, other); err != nil {
		t.Errorf("a bystander: %v", err)
	}
}

func testForeground(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "foreground")
	owner := makeConfigMap(t, s, ctx, "default", "owner")
	child := makeConfigMap(t, s, ctx, "default", "child", blocking(ownedBy(owner)))
	grandchild := makeConfigMap(t, s, ctx, "default", "grandchild", blocking(ownedBy(child)))
	hold := []byte(`{"metadata":{"finalizers":["example.org/hold"]}}`)
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Patch(ctx, grandchild.Name, types.MergePatchType, hold, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	deleteConfigMap(t, s, ctx, owner, metav1.DeletePropagationForeground)
	server.Eventually(t, waitTimeout, "the grandchild is being deleted", func() error {
		cm, err := s.Kube.CoreV1().ConfigMaps("default").Get(ctx, grandchild.Name, metav1.GetOptions{})
		if err == nil && cm.DeletionTimestamp == nil {
			return errors.New("it is not")
		}
		return err
	})
	settled(t, s, ctx)
	if err := errors.Join(configMapThere(s, ctx, owner), configMapThere(s, ctx, child)); err != nil {
		t.Errorf("while the grandchild is held: %v", err)
	}
	release := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Patch(ctx, grandchild.Name, types.MergePatchType, release, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "the owner is gone", func() error { return configMapGone(s, ctx, owner) })
	if err := errors.Join(configMapGone(s, ctx, child), configMapGone(s, ctx, grandchild)); err != nil {
		t.Errorf("the owner went before its dependents: %v", err)
	}
}

func testOrphan(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "orphan")
	owner := makeConfigMap(t, s, ctx, "default", "owner")
	child := makeConfigMap(t, s, ctx, "default", "child", blocking(ownedBy(owner)))
	settled(t, s, ctx) // the informers know the child
	deleteConfigMap(t, s, ctx, owner, metav1.DeletePropagationOrphan)
	server.Eventually(t, waitTimeout, "the owner is gone", func() error { return configMapGone(s, ctx, owner) })
	settled(t, s, ctx)
	now, err := s.Kube.CoreV1().ConfigMaps("default").Get(ctx, child.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(now.OwnerReferences) != 0 {
		t.Errorf("the orphan has owners %v", now.OwnerReferences)
	}
}

func testForeignOwners(t *testing.T, s *server.Server) {
	ctx, elsewhere := cluster(t, s, "foreign"), cluster(t, s, "foreign-2")
	makeNamespace(t, s, ctx, "other")
	abroad := makeConfigMap(t, s, elsewhere, "default", "owner")
	next := makeConfigMap(t, s, ctx, "other", "owner")
	here := makeConfigMap(t, s, ctx, "default", "owner")
	ofAbroad := makeConfigMap(t, s, ctx, "default", "of-abroad", ownedBy(abroad))
	ofNext := makeConfigMap(t, s, ctx, "default", "of-next", ownedBy(next))
	ofHere := makeConfigMap(t, s, ctx, "default", "of-here", ownedBy(here))
	server.Eventually(t, waitTimeout, "what has an owner in another logical cluster is gone", func() error { return configMapGone(s, ctx, ofAbroad) })
	server.Eventually(t, waitTimeout, "what has an owner in another namespace is gone", func() error { return configMapGone(s, ctx, ofNext) })
	deleteConfigMap(t, s, elsewhere, abroad, metav1.DeletePropagationForeground)
	server.Eventually(t, waitTimeout, "the owner abroad is gone", func() error { return configMapGone(s, elsewhere, abroad) })
	settled(t, s, ctx)
	if err := configMapThere(s, ctx, ofHere); err != nil {
		t.Errorf("what has an owner here: %v", err)
	}
}

func testUnanswerableOwner(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "unanswerable")
	owner := makeConfigMap(t, s, ctx, "default", "owner")
	role, err := s.Kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: []metav1.OwnerReference{ownedBy(owner)}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleteConfigMap(t, s, ctx, owner, metav1.DeletePropagationBackground)
	settled(t, s, ctx)
	if _, err := s.Kube.RbacV1().ClusterRoles().Get(ctx, role.Name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func testTwoOwners(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "two-owners")
	first, second := makeConfigMap(t, s, ctx, "default", "first"), makeConfigMap(t, s, ctx, "default", "second")
	child := makeConfigMap(t, s, ctx, "default", "child", blocking(ownedBy(first)), ownedBy(second))
	deleteConfigMap(t, s, ctx, first, metav1.DeletePropagationForeground)
	server.Eventually(t, waitTimeout, "the first owner is gone", func() error { return configMapGone(s, ctx, first) })
	now, err := s.Kube.CoreV1().ConfigMaps("default").Get(ctx, child.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{ownedBy(second)}, now.OwnerReferences); diff != "" {
		t.Error(diff)
	}
	deleteConfigMap(t, s, ctx, second, metav1.DeletePropagationBackground)
	server.Eventually(t, waitTimeout, "the child is gone", func() error { return configMapGone(s, ctx, child) })
}
