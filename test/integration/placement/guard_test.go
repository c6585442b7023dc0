package placement

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func forbidden(t *testing.T, what string, err error, text string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v", what, err)
	}
}

func testLifecycle(t *testing.T) {
	ctx := newCluster(t, "lifecycle")
	client := shared.Kube.CoreV1().Namespaces()
	forbidden(t, "deleting default", client.Delete(ctx, "default", metav1.DeleteOptions{}), "this namespace may not be deleted")

	_, err := shared.Kube.CoreV1().ConfigMaps("nowhere").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || err.Error() != `namespaces "nowhere" not found` {
		t.Errorf("creating in a namespace that is not there: %v", err)
	}

	namespace(t, ctx, "web")
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	if _, err := shared.Kube.CoreV1().ConfigMaps("web").Create(ctx, held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = shared.Kube.AppsV1().Deployments("web").Create(ctx, deployment("a"), metav1.CreateOptions{})
	forbidden(t, "creating in a terminating namespace", err, "unable to create new content in namespace web because it is being terminated")
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("no cause: %v", err)
	}
	if _, err := shared.Kube.CoreV1().ConfigMaps("web").Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testRecords(t *testing.T) {
	ctx := newCluster(t, "records")
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	placements := shared.Atoll.PlacementV1alpha1().Placements("web")
	forbidden(t, "deleting a Placement", placements.Delete(ctx, placementv1alpha1.NamespaceUnit, metav1.DeleteOptions{}), "only the scheduler writes")
	p := placementOf(t, ctx, "web")
	p.Spec.Decision.PhysicalClusters[0].Name = "elsewhere"
	_, err := placements.Update(ctx, p, metav1.UpdateOptions{})
	forbidden(t, "changing a Placement", err, "only the scheduler writes")
	forbidden(t, "deleting all Placements", placements.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}), "only the scheduler writes")
	_, err = shared.Atoll.PlacementV1alpha1().Copies("web").Create(ctx, aCopy("east", "a"), metav1.CreateOptions{})
	forbidden(t, "making a Copy", err, "only the syncer")

	root := root(t)
	forbidden(t, "deleting root", shared.Atoll.TenancyV1alpha1().LogicalClusters().Delete(root, "root", metav1.DeleteOptions{}), "may not be deleted")
	_, err = shared.Atoll.TenancyV1alpha1().LogicalClusters().Create(root, &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "root"}}, metav1.CreateOptions{})
	forbidden(t, "making root", err, "reserved")
}

// aCopy is the record of a deployment on a physical cluster.
func aCopy(cluster, name string) *placementv1alpha1.Copy {
	kind, _ := workload.Builtin().ByResource(placementResource)
	return &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(placementResource, name, cluster)},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: cluster, Object: placementv1alpha1.ObjectReference{
			Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Kind: kind.Kind, Name: name, UID: "1",
		}},
		Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending},
	}
}

func physicalNamespaceOf(t *testing.T, ctx context.Context, name string) string {
	t.Helper()
	ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
}

func testSyncer(t *testing.T) {
	ctx := newCluster(t, "syncer")
	policy(t, "syncer", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "eu") })
	namespace(t, ctx, "web")
	namespace(t, ctx, "other")
	a := create(t, ctx, "web", deployment("a"))
	kube, atoll := syncerClients(t, "east")
	east := scope.WithTarget(ctx, "east")

	copies := atoll.PlacementV1alpha1().Copies("web")
	_, err := copies.Create(east, aCopy("east", "a"), metav1.CreateOptions{})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Deployment a with UID 1 is not here") {
		t.Errorf("the Copy of an object that nobody knows: %v", err)
	}
	record := aCopy("east", "a")
	record.Spec.Object.UID = a.UID
	record.Status.PhysicalNamespace = "of-a-namespace-that-was-made-again"
	if _, err := copies.Create(east, record, metav1.CreateOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the physical namespace of namespace web is") {
		t.Errorf("a Copy in another physical namespace: %v", err)
	}
	record.Status.PhysicalNamespace = physicalNamespaceOf(t, ctx, "web")
	if _, err := copies.Create(east, record, metav1.CreateOptions{}); err != nil {
		t.Errorf("its own Copy: %v", err)
	}
	_, err = copies.Create(east, aCopy("west", "a"), metav1.CreateOptions{})
	forbidden(t, "the Copy of another", err, "may not write a Copy of west")
	_, err = atoll.PlacementV1alpha1().Copies("other").Create(east, aCopy("east", "a"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "other" not found`) {
		t.Errorf("a Copy in a namespace that is not placed there: %v", err)
	}

	pods := kube.CoreV1().Pods("web")
	up := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "up", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "below", placementv1alpha1.TargetsAnnotation: `{"west":{}}`}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
	got, err := pods.Create(east, up, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("mirroring a pod: %v", err)
	}
	if value := got.Annotations[placementv1alpha1.TargetsAnnotation]; value != `{"east":{"state":"Observed","uid":"below"}}` || len(got.Finalizers) > 0 || got.Annotations[placementv1alpha1.UIDAnnotation] != "" {
		t.Errorf("stamped %v %v", got.Annotations, got.Finalizers)
	}
	got.Status.Phase = corev1.PodRunning
	if got, err = pods.UpdateStatus(east, got, metav1.UpdateOptions{}); err != nil || got.Status.Phase != corev1.PodRunning {
		t.Errorf("the status of its pod: %v", err)
	}
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: up.Spec}
	if _, err := shared.Kube.CoreV1().Pods("web").Create(ctx, own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	forbidden(t, "deleting a pod of a user", pods.Delete(east, "own", metav1.DeleteOptions{}), "did not mirror")
	_, err = pods.Patch(east, "own", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	forbidden(t, "changing a pod of a user", err, "did not mirror")
	zero := int64(0)
	if err := pods.Delete(east, "up", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Errorf("deleting its pod: %v", err)
	}
	_, err = pods.Create(east, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "anonymous"}, Spec: up.Spec}, metav1.CreateOptions{})
	forbidden(t, "a pod without the UID below", err, placementv1alpha1.UIDAnnotation)

	atRoot := scope.WithTarget(root(t), "east")
	if err := shared.Renew(root(t), "west"); err != nil {
		t.Fatal(err)
	}
	_, err = kube.CoordinationV1().Leases("atoll-system").Patch(atRoot, "west", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the Lease of another: %v", err)
	}
}

var placementResource = (func() workload.Kind {
	for _, k := range workload.Builtin().Kinds() {
		if k.Kind == "Deployment" {
			return k
		}
	}
	panic("there are no Deployments")
})().GroupResource()
