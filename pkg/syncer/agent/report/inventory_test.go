package report

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func node(name string, ready corev1.ConditionStatus, cordoned bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	n.Spec.Unschedulable = cordoned
	n.Status.Capacity, n.Status.Allocatable = cpu("4"), cpu("3")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

func pod(name, onNode string, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(name)}}
	p.Spec.NodeName, p.Status.Phase = onNode, phase
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "secret/image", Resources: corev1.ResourceRequirements{Requests: cpu("500m")}}}
	return p
}

func class(name, isDefault string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault},
	}}
}

// watched is an inventory that holds its watches.
func watched(t *testing.T, objects ...runtime.Object) *inventory {
	t.Helper()
	i := newInventory(connection.Physical{Kube: kubefake.NewClientset(objects...)})
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() { i.run(t.Context(), func() {}) })
	for deadline := time.Now().Add(10 * time.Second); !i.synced.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the watches do not begin")
		}
	}
	return i
}

func TestWhatThePhysicalClusterHasIsCounted(t *testing.T) {
	i := watched(t,
		node("a", corev1.ConditionTrue, false), node("b", corev1.ConditionTrue, true), node("c", corev1.ConditionFalse, false),
		pod("runs", "a", corev1.PodRunning), pod("done", "a", corev1.PodSucceeded), pod("waits", "", corev1.PodPending),
		class("slow", ""), class("fast", "true"), class("also", "true"))
	var s survey
	i.count(&s)
	got := &fleetv1alpha1.PhysicalClusterStatus{}
	s.fill(got)
	want := &fleetv1alpha1.PhysicalClusterStatus{
		Features: []string{fleetv1alpha1.FeatureManifests},
		Nodes:    1, Capacity: cpu("12"), Allocatable: cpu("3"), Requested: cpu("500m"),
		StorageClasses: []string{"also", "fast", "slow"}, DefaultStorageClass: "also",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What is reported of nodes and pods is of before, while they are not watched.
func TestWhatIsNotWatchedOfTheInventoryIsNotTakenForTrue(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		want     string
	}{
		"nodes":           {"nodes", "nodes"},
		"pods":            {"pods", "pods of everybody"},
		"storage classes": {"storageclasses", "storage classes"},
	} {
		t.Run(name, func(t *testing.T) {
			client := kubefake.NewClientset()
			client.PrependWatchReactor(c.resource, func(clienttesting.Action) (bool, watch.Interface, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: c.resource}, "", nil)
			})
			r := newReporter()
			r.learn(World{ControlPlane: "cp-1", Identity: "down"}, nil)
			r.Syncing(true)
			inv := newInventory(connection.Physical{Kube: client})
			r.setInventory(inv)
			var running sync.WaitGroup
			t.Cleanup(running.Wait)
			running.Go(func() { inv.run(t.Context(), func() {}) })
			for deadline := time.Now().Add(10 * time.Second); len(inv.unwatched()) == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nothing is unwatched")
				}
			}
			later := r.readiness()
			later.Now = later.Now.Add(time.Minute)
			syncing := apimeta.FindStatusCondition(later.Conditions(1), fleetv1alpha1.ConditionSyncing)
			if syncing.Status != metav1.ConditionFalse || syncing.Reason != fleetv1alpha1.ReasonForbidden || !strings.Contains(syncing.Message, "no watch of "+c.want+" since") {
				t.Errorf("it says %+v", syncing)
			}
		})
	}
}

func TestEqualQuantitiesAreLeftAsTheyAreWritten(t *testing.T) {
	status := &fleetv1alpha1.PhysicalClusterStatus{Capacity: cpu("4000m")}
	(survey{watched: true, capacity: cpu("4")}).fill(status)
	if got := status.Capacity[corev1.ResourceCPU]; got.String() != resource.NewMilliQuantity(4000, resource.DecimalSI).String() {
		t.Errorf("it is written anew: %s", got.String())
	}
	before := status.DeepCopy()
	(survey{}).fill(status)
	before.Version, before.APIs = "", nil
	if diff := cmp.Diff(before, status); diff != "" {
		t.Errorf("before the watches begin, something is said of what they show (-want +got)\n%s", diff)
	}
}

func TestOfAPodOnlyWhatItRequestsIsKept(t *testing.T) {
	kept, err := requestsOnly(pod("runs", "a", corev1.PodRunning))
	if err != nil {
		t.Fatal(err)
	}
	if kept.Spec.Containers[0].Image != "" || kept.Spec.NodeName != "a" || !sameResources(kept.Spec.Containers[0].Resources.Requests, cpu("500m")) {
		t.Errorf("%+v", kept.Spec)
	}
	if _, err := requestsOnly(&corev1.Node{}); err == nil {
		t.Error("a Node is taken for a Pod")
	}
}

func TestADeclaredKindThatMayNotBeListedCountsAsNotServed(t *testing.T) {
	widgets := workload.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets", Role: workload.Placed, Declared: true}
	gadgets := workload.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, Resource: "gadgets", Role: workload.Placed, Declared: true}
	kinds, err := workload.Builtin().With(widgets, gadgets)
	if err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if gr := action.GetResource().GroupResource(); gr == widgets.GroupResource() {
			return true, nil, apierrors.NewForbidden(gr, "", nil)
		}
		return true, &metav1.PartialObjectMetadataList{}, nil
	})
	i := newInventory(connection.Physical{Kube: kubefake.NewClientset(), Metadata: client})
	i.served = []string{gadgets.API(), widgets.API()}
	i.forbid(t.Context(), kinds)
	if diff := cmp.Diff([][]string{{gadgets.API()}, {"widgets.example.com"}}, [][]string{i.served, i.forbidden}); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		declared  int
		forbidden []string
		want      metav1.ConditionStatus
	}{{0, nil, ""}, {2, nil, metav1.ConditionTrue}, {2, i.forbidden, metav1.ConditionFalse}} {
		condition := syncer.DeclaredKindsCondition(c.declared, c.forbidden, nil, 1)
		if condition == nil && c.want != "" || condition != nil && condition.Status != c.want {
			t.Errorf("%d declared, forbidden %v: %+v", c.declared, c.forbidden, condition)
		}
	}
}

// An offer that is not known is not one of nothing: the one rejects no unit, the other does.
func TestTheHandlersThatAreOfferedAreReported(t *testing.T) {
	class := func(name, handler string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
	}
	forbidden := apierrors.NewForbidden(nodev1.Resource("runtimeclasses"), "", nil)
	pool := class("pool", "pool")
	pool.Scheduling = &nodev1.Scheduling{Tolerations: []corev1.Toleration{{Key: "pool"}}}
	before := &fleetv1alpha1.ReportedNames{Names: []string{"before"}}
	for name, c := range map[string]struct {
		classes []runtime.Object
		err     error
		more    string
		permits fleetv1alpha1.Tenancy
		want    *fleetv1alpha1.ReportedNames
	}{
		"sorted, each once":        {classes: []runtime.Object{class("a", "runsc"), class("b", "kata"), class("c", "runsc")}, want: &fleetv1alpha1.ReportedNames{Names: []string{"kata", "runsc"}}},
		"those that are permitted": {classes: []runtime.Object{class("a", "runsc"), pool}, want: &fleetv1alpha1.ReportedNames{Names: []string{"runsc"}}},
		"those that are named": {classes: []runtime.Object{class("a", "runsc"), pool}, permits: fleetv1alpha1.Tenancy{RuntimeClasses: []string{"pool"}},
			want: &fleetv1alpha1.ReportedNames{Names: []string{"pool"}}},
		"none":              {want: &fleetv1alpha1.ReportedNames{}},
		"may not be listed": {classes: []runtime.Object{class("a", "runsc")}, err: forbidden},
		"too many":          {more: "next"},
		"no answer":         {err: context.DeadlineExceeded, want: before},
	} {
		client := kubefake.NewClientset(c.classes...)
		if c.err != nil || c.more != "" {
			client.PrependReactor("list", "runtimeclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &nodev1.RuntimeClassList{ListMeta: metav1.ListMeta{Continue: c.more}}, c.err
			})
		}
		i := newInventory(connection.Physical{Kube: client})
		i.runtimes.handlers = before
		if diff := cmp.Diff(c.want, i.runtimeClasses(t.Context(), c.permits).handlers); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	status := &fleetv1alpha1.PhysicalClusterStatus{RuntimeHandlers: before}
	if (survey{apis: []string{"/v1/pods"}}).fill(status); status.RuntimeHandlers != nil || len(status.APIs) == 0 {
		t.Errorf("what may not be listed any more is still reported, or the rest is not: %+v", status)
	}
}

// What is not known, and what is not there, are not the same, as for handlers.
func TestTheClassesThatAreThereAreReported(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses"}
	class := func(name string) runtime.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IngressClass"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	var many []runtime.Object
	for i := range fleetv1alpha1.MaxReportedNames + 1 {
		many = append(many, class(fmt.Sprint("c", i)))
	}
	before := &fleetv1alpha1.ReportedNames{Names: []string{"before"}}
	for name, c := range map[string]struct {
		classes []runtime.Object
		err     error
		want    *fleetv1alpha1.ReportedNames
	}{
		"sorted":            {classes: []runtime.Object{class("nginx"), class("haproxy")}, want: &fleetv1alpha1.ReportedNames{Names: []string{"haproxy", "nginx"}}},
		"none":              {want: &fleetv1alpha1.ReportedNames{}},
		"may not be listed": {classes: []runtime.Object{class("nginx")}, err: apierrors.NewForbidden(resource.GroupResource(), "", nil)},
		"not served":        {err: apierrors.NewNotFound(resource.GroupResource(), "")},
		"too many":          {classes: many},
		"no answer":         {err: context.DeadlineExceeded, want: before},
	} {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := metadatafake.NewSimpleMetadataClient(scheme, c.classes...)
		if c.err != nil {
			client.PrependReactor("list", resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
		}
		i := newInventory(connection.Physical{Kube: kubefake.NewClientset(), Metadata: client})
		if diff := cmp.Diff(c.want, i.names(t.Context(), resource, before)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	status := &fleetv1alpha1.PhysicalClusterStatus{IngressClasses: before, PriorityClasses: before}
	if (survey{apis: []string{"/v1/pods"}, offered: boundary.Classes{Priority: &fleetv1alpha1.ReportedNames{}}}).fill(status); status.IngressClasses != nil || len(status.PriorityClasses.Names) != 0 {
		t.Errorf("what is not known any more, or is not there any more, is still reported: %+v", status)
	}
}

// Parameters and annotations of classes name Secrets: neither is reported.
func TestTheClassesOfSnapshotsAreReportedWithoutTheirSecrets(t *testing.T) {
	gvr := syncer.SnapshotClasses
	class := func(name, policy string) runtime.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gvr.GroupVersion().String(), "kind": "VolumeSnapshotClass", "driver": "d", "deletionPolicy": policy,
			"parameters": map[string]any{"csi.storage.k8s.io/snapshotter-secret-name": "password"}}}
		u.SetName(name)
		u.SetAnnotations(map[string]string{"snapshot.storage.kubernetes.io/deletion-secret-name": "password"})
		return u
	}
	served := []string{"/v1/pods", gvr.GroupVersion().String() + "/" + gvr.Resource}
	before := &fleetv1alpha1.ReportedSnapshotClasses{Classes: []fleetv1alpha1.SnapshotClass{{Name: "before"}}}
	for name, c := range map[string]struct {
		served []string
		err    error
		want   *fleetv1alpha1.ReportedSnapshotClasses
	}{
		"sorted": {served: served, want: &fleetv1alpha1.ReportedSnapshotClasses{Classes: []fleetv1alpha1.SnapshotClass{
			{Name: "keeps", Driver: "d", DeletionPolicy: "Retain"}, {Name: "snaps", Driver: "d", DeletionPolicy: "Delete"}}}},
		"not served":        {served: served[:1]},
		"may not be listed": {served: served, err: apierrors.NewForbidden(gvr.GroupResource(), "", nil)},
		"no answer":         {served: served, err: context.DeadlineExceeded, want: before},
	} {
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{gvr: "VolumeSnapshotClassList"}, class("snaps", "Delete"), class("keeps", "Retain"))
		if c.err != nil {
			client.PrependReactor("list", gvr.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
		}
		i := newInventory(connection.Physical{Kube: kubefake.NewClientset(), Dynamic: client})
		i.served, i.snapshots = c.served, before
		if diff := cmp.Diff(c.want, i.snapshotClasses(t.Context())); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	status := &fleetv1alpha1.PhysicalClusterStatus{VolumeSnapshotClasses: before}
	if (survey{}).fill(status); status.VolumeSnapshotClasses != nil {
		t.Errorf("what is not known any more is still reported: %+v", status)
	}
}

// What pods may run with is looked at again when it changes: the names of classes stay.
func TestAClassThatChangesIsNoticed(t *testing.T) {
	client := kubefake.NewClientset(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"})
	i := newInventory(connection.Physical{Kube: client, Metadata: metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())})
	kinds := workload.Builtin()
	offered := func(permits fleetv1alpha1.Tenancy) string {
		if err := i.ask(t.Context(), kinds, permits); err != nil {
			t.Fatal(err)
		}
		return i.runtimes.digest
	}
	first := offered(fleetv1alpha1.Tenancy{})
	class, err := client.NodeV1().RuntimeClasses().Get(t.Context(), "gvisor", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	class.Scheduling, class.ResourceVersion = &nodev1.Scheduling{Tolerations: []corev1.Toleration{{Key: "pool"}}}, "2"
	if _, err := client.NodeV1().RuntimeClasses().Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if again := offered(fleetv1alpha1.Tenancy{}); again != first {
		t.Error("it was asked for at once")
	}
	i.servedAt = time.Time{}
	gone := offered(fleetv1alpha1.Tenancy{})
	if gone == first {
		t.Error("a class that has a toleration now is not noticed")
	}
	class.ResourceVersion = "4" // without it, and with it again: copies may have met that
	if _, err := client.NodeV1().RuntimeClasses().Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	i.servedAt = time.Time{}
	if again := offered(fleetv1alpha1.Tenancy{}); again == gone {
		t.Error("a class that was another one between two looks is not noticed")
	}
	offered(fleetv1alpha1.Tenancy{Taints: []string{"pool"}}) // other permits are looked at without delay
	if names := i.runtimes.handlers.Names; len(names) != 1 {
		t.Errorf("with the permit there are %v", names)
	}
}
