package controllers

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/test/framework/server"
)

func testNamespace(t *testing.T, s *server.Server) {
	ctx, neighbour := cluster(t, s, "namespace"), cluster(t, s, "namespace-2")
	makeNamespace(t, s, ctx, "web")
	makeNamespace(t, s, neighbour, "web")
	makeConfigMap(t, s, ctx, "web", "x")
	kept := makeConfigMap(t, s, neighbour, "web", "x")
	if err := s.Kube.CoreV1().Namespaces().Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, patience, "the namespace is gone", func() error {
		return gone(func() error { _, err := s.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{}); return err })
	})
	if err := configMapThere(s, neighbour, kept); err != nil {
		t.Errorf("in another logical cluster: %v", err)
	}
	makeNamespace(t, s, ctx, "web")
	if err := gone(func() error {
		_, err := s.Kube.CoreV1().ConfigMaps("web").Get(ctx, "x", metav1.GetOptions{})
		return err
	}); err != nil {
		t.Errorf("content of the predecessor: %v", err)
	}
}

func testHeldNamespace(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "held-namespace")
	makeNamespace(t, s, ctx, "web")
	_, err := s.Kube.CoreV1().Secrets("web").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Finalizers: []string{"example.org/hold"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kube.CoreV1().Namespaces().Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, patience, "the condition says what holds the namespace", func() error {
		ns, err := s.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range ns.Status.Conditions {
			if c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", ns.Status.Conditions)
	})
	if _, err := s.Kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); err == nil {
		t.Error("a terminating namespace took new content")
	}
	_, err = s.Kube.CoreV1().Secrets("web").Patch(ctx, "x", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, patience, "the namespace is gone", func() error {
		return gone(func() error { _, err := s.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{}); return err })
	})
}

func testDefaults(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "defaults")
	makeNamespace(t, s, ctx, "web")
	both := func(account, rootCA types.UID) func() error {
		return func() error {
			sa, err := s.Kube.CoreV1().ServiceAccounts("web").Get(ctx, "default", metav1.GetOptions{})
			if err != nil {
				return err
			}
			cm, err := s.Kube.CoreV1().ConfigMaps("web").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if sa.UID == account || cm.UID == rootCA {
				return errors.New("not made again yet")
			}
			if len(cm.Data) != 1 || cm.Data["ca.crt"] == "forged" {
				return fmt.Errorf("root CA %q", cm.Data)
			}
			return nil
		}
	}
	server.Eventually(t, patience, "a new namespace gets both", both("", ""))
	sa, err := s.Kube.CoreV1().ServiceAccounts("web").Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm, err := s.Kube.CoreV1().ConfigMaps("web").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kube.CoreV1().ServiceAccounts("web").Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Kube.CoreV1().ConfigMaps("web").Delete(ctx, "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, patience, "what was deleted is made again", both(sa.UID, cm.UID))
	_, err = s.Kube.CoreV1().ConfigMaps("web").Patch(ctx, "kube-root-ca.crt", types.MergePatchType,
		[]byte(`{"data":{"ca.crt":"forged","more":"of it"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, patience, "what was changed is repaired", both("", ""))
}
