package apiserver

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestAnUnknownLogicalClusterIsNotFoundByName(t *testing.T) {
	s := shared(t)
	ctx := scope.WithCluster(t.Context(), "nowhere")
	_, err := s.Kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if want := `logical cluster "nowhere" not found`; !apierrors.IsNotFound(err) || err.Error() != want {
		t.Errorf("got %v, want NotFound: %s", err, want)
	}
}

func TestARequestWithoutALogicalClusterIsTaughtHowToNameOne(t *testing.T) {
	s := shared(t)
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(s.Config.Host + "/api/v1/namespaces")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 404 || response.Header.Get("Warning") == "" {
		t.Errorf("status %d, warning %q; want 404 and a warning", response.StatusCode, response.Header.Get("Warning"))
	}
}

func TestEqualNamesInTwoLogicalClustersAreTwoObjects(t *testing.T) {
	s := shared(t)
	// One name is a prefix of the other: keys must not be confused by that.
	a, b := s.NewCluster(t, "same"), s.NewCluster(t, "same-too")
	for ctx, value := range map[string]string{"a": "a", "b": "b"} {
		in := a
		if ctx == "b" {
			in = b
		}
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"in": value}}
		if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(in, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Kube.CoreV1().ConfigMaps("default").Delete(a, "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Get(a, "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted in its own logical cluster: %v", err)
	}
	cm, err := s.Kube.CoreV1().ConfigMaps("default").Get(b, "x", metav1.GetOptions{})
	if err != nil || cm.Data["in"] != "b" {
		t.Errorf("the other logical cluster has %v, %v", cm, err)
	}
}

func TestAWatchSeesItsOwnLogicalClusterOnly(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "watch-a"), s.NewCluster(t, "watch-b")
	w, err := s.Kube.CoreV1().ConfigMaps("").Watch(a, metav1.ListOptions{LabelSelector: "watched"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	labels := map[string]string{"watched": ""}
	for _, step := range []struct {
		name string
		in   string
	}{{"other", "b"}, {"own", "a"}} {
		ctx := a
		if step.in == "b" {
			ctx = b
		}
		if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: step.name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case e := <-w.ResultChan():
		if cm, ok := e.Object.(*corev1.ConfigMap); !ok || e.Type != watch.Added || cm.Name != "own" {
			t.Errorf("first event %s %v, want own to be added", e.Type, e.Object)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
}

func TestOneWatchOverAllLogicalClustersIsForTheSystem(t *testing.T) {
	s := shared(t)
	s.NewCluster(t, "all-a")
	s.NewCluster(t, "all-b")
	all := scope.WithCluster(t.Context(), scope.Wildcard)
	list, err := s.Kube.CoreV1().Namespaces().List(all, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, ns := range list.Items {
		if ns.Name == "default" {
			seen = append(seen, ns.Annotations["kcp.io/cluster"])
		}
	}
	if !slices.Contains(seen, "all-a") || !slices.Contains(seen, "all-b") {
		t.Errorf("default namespaces of %v", seen)
	}
	if _, err := s.Kube.CoreV1().Namespaces().Create(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("creating over all logical clusters: %v, want Forbidden", err)
	}
}

func TestTheClusterAnnotationCannotBeForged(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "forge")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"kcp.io/cluster": "root", "placement.atoll.dev/targets": `{"east":{}}`}}}
	created, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := created.Annotations; got["kcp.io/cluster"] != "forge" || got["placement.atoll.dev/targets"] != "" {
		t.Errorf("annotations %v", got)
	}
}
