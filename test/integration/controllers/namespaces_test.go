package controllers

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
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
	server.Eventually(t, waitTimeout, "the namespace is gone", func() error {
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
	server.Eventually(t, waitTimeout, "the condition says what holds the namespace", func() error {
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
	server.Eventually(t, waitTimeout, "the namespace is gone", func() error {
		return gone(func() error { _, err := s.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{}); return err })
	})
}

// testWorkloadsFirst has a pod that is kept, as pods of a physical cluster are until
// their workload is gone there.
func testWorkloadsFirst(t *testing.T, s *server.Server) {
	ctx := cluster(t, s, "workloads-first")
	makeNamespace(t, s, ctx, "web")
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}
	if _, err := s.Kube.AppsV1().Deployments("web").Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: template.Labels, Finalizers: []string{"example.com/kept"}}, Spec: template.Spec}
	if _, err := s.Kube.CoreV1().Pods("web").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := makeConfigMap(t, s, ctx, "web", "config")
	if err := s.Kube.CoreV1().Namespaces().Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "the workload is gone", func() error {
		return gone(func() error {
			_, err := s.Kube.AppsV1().Deployments("web").Get(ctx, "web", metav1.GetOptions{})
			return err
		})
	})
	server.Eventually(t, waitTimeout, "the pod is ending", func() error {
		pod, err := s.Kube.CoreV1().Pods("web").Get(ctx, "web", metav1.GetOptions{})
		if err == nil && pod.DeletionTimestamp == nil {
			return errors.New("it is not")
		}
		return err
	})
	if err := configMapThere(s, ctx, config); err != nil {
		t.Errorf("while the pod runs its config is needed: %v", err)
	}
	if _, err := s.Kube.CoreV1().Pods("web").Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "the namespace is gone", func() error {
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
	server.Eventually(t, waitTimeout, "a new namespace gets both", both("", ""))
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
	server.Eventually(t, waitTimeout, "what was deleted is made again", both(sa.UID, cm.UID))
	_, err = s.Kube.CoreV1().ConfigMaps("web").Patch(ctx, "kube-root-ca.crt", types.MergePatchType,
		[]byte(`{"data":{"ca.crt":"forged","more":"of it"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "what was changed is repaired", both("", ""))
}
