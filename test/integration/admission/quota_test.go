package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// limit makes a quota and waits until it knows what is used.
func limit(t *testing.T, s *server.Server, ctx context.Context, hard map[string]string, scopes ...corev1.ResourceQuotaScope) {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}, Scopes: scopes}}
	for name, quantity := range hard {
		q.Spec.Hard[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	if _, err := s.Kube.CoreV1().ResourceQuotas("web").Create(ctx, q, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	eventually(t, "the quota is counted", func() error {
		q, err := s.Kube.CoreV1().ResourceQuotas("web").Get(ctx, "quota", metav1.GetOptions{})
		if err == nil && len(q.Status.Used) != len(hard) {
			return fmt.Errorf("status %v", q.Status)
		}
		return err
	})
	t.Logf("counted after %s", time.Since(started))
}

// used is the usage that a quota shows.
func used(s *server.Server, ctx context.Context) (map[string]string, error) {
	q, err := s.Kube.CoreV1().ResourceQuotas("web").Get(ctx, "quota", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, quantity := range q.Status.Used {
		out[string(name)] = quantity.String()
	}
	return out, nil
}

func wantUsed(t *testing.T, s *server.Server, ctx context.Context, want map[string]string) {
	t.Helper()
	eventually(t, "the quota shows what is used", func() error {
		got, err := used(s, ctx)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return err
	})
}

func TestAQuotaChargesRefusesAndCreditsInItsLogicalClusterOnly(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "quota")
	limit(t, s, own, map[string]string{"pods": "2", "requests.cpu": "1", "services.nodeports": "1", "services": "5"})

	p := pod("a")
	_, err := s.Kube.CoreV1().Pods("web").Create(own, p, metav1.CreateOptions{})
	forbidden(t, err, "failed quota: quota: must specify requests.cpu for: main")
	p.Spec.Containers[0].Resources = requests("600m")
	createPod(t, s, own, p)
	if got, err := used(s, own); err != nil || got["requests.cpu"] != "600m" || got["pods"] != "1" {
		t.Errorf("used %v (%v) right after the pod was created", got, err)
	}
	p.Name = "b"
	_, err = s.Kube.CoreV1().Pods("web").Create(own, p, metav1.CreateOptions{})
	forbidden(t, err, "exceeded quota: quota, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1")
	for range 3 {
		p.Name += "b"
		createPod(t, s, other, p)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if service, err = s.Kube.CoreV1().Services("web").Create(own, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service.Spec.Type = corev1.ServiceTypeNodePort
	if _, err = s.Kube.CoreV1().Services("web").Update(own, service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, s, own, map[string]string{"pods": "1", "requests.cpu": "600m", "services": "1", "services.nodeports": "1"})

	now := int64(0)
	if err := s.Kube.CoreV1().Pods("web").Delete(own, "a", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, s, own, map[string]string{"pods": "0", "requests.cpu": "0", "services": "1", "services.nodeports": "1"})
	createPod(t, s, own, p)
}

func TestObjectsAreCountedOfBuiltInAndOfCustomResources(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "counts")
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	define(t, s, own, widgets)
	define(t, s, other, widgets)
	limit(t, s, own, map[string]string{"count/configmaps": "3", "configmaps": "3", "count/deployments.apps": "0", "count/widgets.example.com": "1"})

	// kube-root-ca.crt is one of them.
	wantUsed(t, s, own, map[string]string{"count/configmaps": "1", "configmaps": "1", "count/deployments.apps": "0", "count/widgets.example.com": "0"})
	for i, want := range []bool{true, true, false} {
		_, err := s.Kube.CoreV1().ConfigMaps("web").Create(own, configMap(fmt.Sprint("c", i)), metav1.CreateOptions{})
		if (err == nil) != want {
			t.Errorf("config map %d: %v", i, err)
		}
	}
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}}}
	for _, ctx := range []context.Context{own, other} {
		eventually(t, "a widget is created", func() error {
			_, err := s.Dynamic.Resource(widgets).Namespace("web").Create(ctx, widget, metav1.CreateOptions{})
			return err
		})
	}
	widget.SetName("b")
	_, err := s.Dynamic.Resource(widgets).Namespace("web").Create(own, widget, metav1.CreateOptions{})
	forbidden(t, err, "exceeded quota: quota, requested: count/widgets.example.com=1, used: count/widgets.example.com=1, limited: count/widgets.example.com=1")
	if _, err := s.Dynamic.Resource(widgets).Namespace("web").Create(other, widget, metav1.CreateOptions{}); err != nil {
		t.Errorf("in another logical cluster: %v", err)
	}
	if err := s.Dynamic.Resource(widgets).Namespace("web").Delete(own, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, s, own, map[string]string{"count/configmaps": "3", "configmaps": "3", "count/deployments.apps": "0", "count/widgets.example.com": "0"})
}

// define makes a custom resource without a schema to speak of.
func define(t *testing.T, s *server.Server, ctx context.Context, gvr schema.GroupVersionResource) {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": gvr.Resource + "." + gvr.Group},
		"spec": map[string]any{
			"group": gvr.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": gvr.Resource, "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": gvr.Version, "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := s.Dynamic.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the custom resource is served", func() error {
		_, err := s.Dynamic.Resource(gvr).Namespace("web").List(ctx, metav1.ListOptions{})
		return err
	})
}

func TestAQuotaWithAScopeCountsWhatIsInIt(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "scopes")
	limit(t, s, own, map[string]string{"pods": "1"}, corev1.ResourceQuotaScopeBestEffort)
	burstable := pod("burstable")
	burstable.Spec.Containers[0].Resources = requests("1")
	createPod(t, s, own, burstable)
	wantUsed(t, s, own, map[string]string{"pods": "0"})
	createPod(t, s, own, pod("best-effort"))
	_, err := s.Kube.CoreV1().Pods("web").Create(own, pod("more"), metav1.CreateOptions{})
	forbidden(t, err, "exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1")
}

func TestConcurrentRequestsDoNotExceedAQuota(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "race")
	const most = 10
	limit(t, s, own, map[string]string{"count/secrets": fmt.Sprint(most)})
	var admitted atomic.Int32
	var all sync.WaitGroup
	for i := range 3 * most {
		all.Go(func() {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}
			_, err := s.Kube.CoreV1().Secrets("web").Create(own, secret, metav1.CreateOptions{})
			switch {
			case err == nil:
				admitted.Add(1)
			case !apierrors.IsForbidden(err):
				t.Errorf("secret %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if got := admitted.Load(); got != most {
		t.Errorf("%d of %d secrets were admitted", got, most)
	}
	wantUsed(t, s, own, map[string]string{"count/secrets": fmt.Sprint(most)})
}

func TestWhatWasChargedForARequestThatFailedIsCredited(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "credit")
	limit(t, s, own, map[string]string{"count/configmaps": "10"})
	if _, err := s.Kube.CoreV1().ConfigMaps("web").Create(own, configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kube.CoreV1().ConfigMaps("web").Create(own, configMap("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("got %v, want AlreadyExists", err)
	}
	wantUsed(t, s, own, map[string]string{"count/configmaps": "2"})
}

func TestALimitOfAQuotaThatChangesCounts(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "change")
	limit(t, s, own, map[string]string{"count/configmaps": "1"})
	wantUsed(t, s, own, map[string]string{"count/configmaps": "1"}) // what every namespace has
	_, err := s.Kube.CoreV1().ConfigMaps("web").Create(own, configMap("a"), metav1.CreateOptions{})
	forbidden(t, err, "exceeded quota")
	eventually(t, "the quota is raised", func() error {
		q, err := s.Kube.CoreV1().ResourceQuotas("web").Get(own, "quota", metav1.GetOptions{})
		if err != nil {
			return err
		}
		q.Spec.Hard["count/configmaps"] = resource.MustParse("2")
		_, err = s.Kube.CoreV1().ResourceQuotas("web").Update(own, q, metav1.UpdateOptions{})
		return err
	})
	eventually(t, "there is room", func() error { return tryConfigMap(s, own, "a") })
}
