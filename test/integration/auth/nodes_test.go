package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestPhysicalClustersAreTheNodesOfALogicalCluster(t *testing.T) {
	s := shared(t)
	ctx, root := s.NewCluster(t, "nodes"), scope.WithCluster(t.Context(), scope.Root)
	nodes, clusters := s.Kube.CoreV1().Nodes(), s.Atoll.FleetV1alpha1().PhysicalClusters()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Stop()
	eu, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "region=eu"})
	if err != nil {
		t.Fatal(err)
	}
	defer eu.Stop()
	if _, err := clusters.Create(root, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Labels: map[string]string{"region": "eu"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, all, watch.Added, "east")
	expect(t, eu, watch.Added, "east")
	east, err := nodes.Get(ctx, "east", metav1.GetOptions{})
	if err != nil || east.Labels[corev1.LabelHostname] != "east" || east.Labels["region"] != "eu" || east.UID == "" || east.Annotations["kcp.io/cluster"] != "nodes" {
		t.Errorf("node %v, %v", east, err)
	}
	for selector, want := range map[string]int{"region=eu": 1, "region=us": 0, "kubernetes.io/os=linux": 1} {
		if l, err := nodes.List(ctx, metav1.ListOptions{LabelSelector: selector}); err != nil || len(l.Items) != want {
			t.Errorf("%s: %v, %v; want %d", selector, l.Items, err, want)
		}
	}
	if l, err := nodes.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=west"}); err != nil || len(l.Items) != 0 {
		t.Errorf("by name: %v, %v", l.Items, err)
	}
	if _, err := nodes.Patch(ctx, "east", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PhysicalCluster") {
		t.Errorf("cordoning a node: %v, want Forbidden with what to do", err)
	}
	if _, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("making a node: %v, want Forbidden", err)
	}
	if err := nodes.Delete(ctx, "east", metav1.DeleteOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("deleting a node: %v, want MethodNotSupported", err)
	}
	if _, err := nodes.Get(ctx, "nowhere", metav1.GetOptions{}); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `nodes "nowhere" not found`) {
		t.Errorf("an unknown node: %v", err)
	}
	if _, err := clusters.Patch(root, "east", types.MergePatchType, []byte(`{"metadata":{"labels":{"region":"us"}},"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is cordoned", func() error {
		n, err := nodes.Get(ctx, "east", metav1.GetOptions{})
		if err == nil && !n.Spec.Unschedulable {
			err = errors.New("it is not")
		}
		return err
	})
	expect(t, eu, watch.Deleted, "east")
	if err := clusters.Delete(root, "east", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := next(t, all); e.Type != watch.Deleted; e = next(t, all) {
		if e.Type != watch.Modified {
			t.Fatalf("%s %v", e.Type, e.Object)
		}
	}
}

// expect reads events until one of a type, and fails for another name; what a
// controller changes in between is not asked for.
func expect(t *testing.T, w watch.Interface, kind watch.EventType, name string) {
	t.Helper()
	for e := next(t, w); ; e = next(t, w) {
		n, ok := e.Object.(*corev1.Node)
		if !ok || n.Name != name {
			t.Fatalf("%s %v, want %s %s", e.Type, e.Object, kind, name)
		}
		if e.Type == kind {
			return
		}
	}
}

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch ended")
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
		return watch.Event{}
	}
}
