package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// registration is a PhysicalCluster, a reporter of it, and what it is led to.
type registration struct {
	*testing.T
	balancer
	down     physical
	reporter *reporter
}

func register(t *testing.T, server *clusterServer) *registration {
	t.Helper()
	r := &registration{T: t}
	r.to.Store(server)
	var g *gate
	r.down, g = gatedTo(t, &r.balancer)
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	pc.Status.ControlPlane = controlPlane
	r.reporter = newReporter("east", reportInterval, upstream{atoll: atollfake.NewSimpleClientset(pc)}, r.down, g)
	return r
}

func (r *registration) get() *fleetv1alpha1.PhysicalCluster {
	r.Helper()
	pc, err := r.reporter.up.atoll.FleetV1alpha1().PhysicalClusters().Get(r.Context(), "east", metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return pc
}

// change is what an admin, or the server, writes.
func (r *registration) change(f func(*fleetv1alpha1.PhysicalCluster)) {
	r.Helper()
	pc := r.get()
	f(pc)
	if _, err := r.reporter.up.atoll.FleetV1alpha1().PhysicalClusters().Update(r.Context(), pc, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *registration) accept() {
	r.Helper()
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.Identity.Accepted = pc.Status.Identity.UID })
}

// lead changes where the way to the physical cluster leads, for each connection.
func (r *registration) lead(server *clusterServer) {
	r.to.Load().CloseClientConnections()
	r.to.Store(server)
	r.reporter.gate.fresh()
}

// report reports once, and checks what is said of Ready, and for whom the gate is open.
func (r *registration) report(want string, open types.UID) {
	r.Helper()
	if _, err := r.reporter.once(scope.WithCluster(r.Context(), scope.Root)); err != nil {
		r.Fatal(err)
	}
	ready := apimeta.FindStatusCondition(r.get().Status.Conditions, fleetv1alpha1.ConditionReady)
	if got := string(ready.Status) + " " + ready.Reason; got != want {
		r.Errorf("Ready is %s, not %s: %s", got, want, ready.Message)
	}
	if got := r.reporter.gate.admitted(); got != open || r.reporter.world.identity != open {
		r.Errorf("the gate is open for %q, a session would begin with %q, not %q", got, r.reporter.world.identity, open)
	}
	if err := write(r.T, r.down, want); (err == nil) != (open != "") {
		r.Errorf("a write: %v", err)
	}
}

func TestAnotherClusterIsReportedAndNothingElseOfIt(t *testing.T) {
	east, west := newClusterServer(t, "e", true), newClusterServer(t, "w", true)
	r := register(t, east)
	r.report("False Identifying", "") // it is recorded first
	r.report("False Identifying", "") // and accepted
	r.accept()
	r.report("True Heartbeat", "e")
	before := r.get().Status

	r.lead(west)
	r.report("False OtherCluster", "")
	after := r.get().Status
	for _, s := range []*fleetv1alpha1.PhysicalClusterStatus{&before, &after} {
		s.Conditions = nil
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something of the other cluster is reported (-before +after):\n%s", diff)
	}
	r.lead(east)
	r.report("True Heartbeat", "e")
	if got := west.writes(); len(got) != 0 {
		t.Errorf("written to the other cluster: %q", got)
	}

	// Confirmed, the other one takes its place.
	r.lead(west)
	r.report("False OtherCluster", "")
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Identity = "no such" })
	r.report("False OtherCluster", "")
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Identity = "w" })
	r.report("False Identifying", "")
	r.accept()
	r.report("True Heartbeat", "w")
	r.lead(east)
	r.report("False OtherCluster", "")
}

func TestWhatASingleConnectionMeetsIsReportedToo(t *testing.T) {
	east, west := newClusterServer(t, "e", true), newClusterServer(t, "w", true)
	r := register(t, east)
	r.report("False Identifying", "")
	r.accept()
	r.report("True Heartbeat", "e")
	r.lead(west)
	if err := write(t, r.down, "x"); !errors.Is(err, errNotMeant) {
		t.Fatalf("written to another cluster: %v", err)
	}
	r.lead(east) // who is asked next is the right one again
	r.report("False OtherCluster", "")
	r.report("True Heartbeat", "e")
}

func TestACredentialThatDoesNotShowKubeSystemIsExplained(t *testing.T) {
	east := newClusterServer(t, "e", true)
	east.forbidden = true
	r := register(t, east)
	r.report("False Forbidden", "")
	if m := r.get().Status.Conditions[0].Message; !strings.Contains(m, "kube-system") {
		t.Errorf("it says %q", m)
	}
	east.set(func() { east.forbidden = false })
	r.report("False Identifying", "")
	r.accept()
	r.report("True Heartbeat", "e")
	// Silence changes nothing: what is known of a connection stays known.
	east.set(func() { east.forbidden = true })
	r.report("False Forbidden", "e")
}

func TestAnEmptiedClusterIsFilledAgainOnlyAfterAConfirmation(t *testing.T) {
	east := newClusterServer(t, "e", true)
	r := register(t, east)
	r.report("False Identifying", "")
	r.accept()
	expected := func() int { return 2 }
	meet := func(want error) {
		t.Helper()
		if err := r.reporter.meet(t.Context(), expected); !errors.Is(err, want) {
			t.Errorf("meeting it: %v, not %v", err, want)
		}
	}
	r.report("True Heartbeat", "e")
	meet(nil) // nothing was ever there
	east.set(func() { east.ours = 2 })
	r.report("True Heartbeat", "e")
	if !r.get().Status.Identity.Populated {
		t.Fatal("that namespaces are there is not recorded")
	}
	r.report("True Heartbeat", "e")
	meet(nil)

	east.set(func() { east.ours = 0 })
	meet(errLost)
	r.report("False Emptied", "")
	emptied := r.get().Status.Identity.Emptied
	if emptied == nil {
		t.Fatal("when it was emptied is not recorded")
	}
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Identity = "e" })
	r.report("False Emptied", "") // that is another confirmation

	// Restored, it needs none.
	east.set(func() { east.ours = 2 })
	r.report("False Identifying", "")
	r.report("True Heartbeat", "e")
	meet(nil)
	east.set(func() { east.ours = 0 })
	meet(errLost)

	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Emptied = pc.Status.Identity.Emptied })
	r.report("False Identifying", "")
	r.report("True Heartbeat", "e")
	meet(nil)
}

func TestTheNamespacesThatShouldBeThereAreThoseOfTheRecords(t *testing.T) {
	record := func(name, resource string, uid types.UID, state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		c := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Annotations: map[string]string{"kcp.io/cluster": "shop"}}}
		c.Spec.Object.Resource, c.Status.PhysicalUID, c.Status.State = resource, uid, state
		return c
	}
	f := newFixture(t, nil, nil,
		record("a", "namespaces", "1", placementv1alpha1.CopySynced), record("b", "namespaces", "2", placementv1alpha1.CopyFailed),
		record("c", "namespaces", "", placementv1alpha1.CopyPending), record("d", "namespaces", "4", placementv1alpha1.CopyRemoving),
		record("e", "namespaces", "5", placementv1alpha1.CopyRemoved), record("f", "configmaps", "6", placementv1alpha1.CopySynced))
	f.watch(t)
	if got := f.expected(); got != 2 {
		t.Errorf("%d, not 2", got)
	}
}

func TestARemovalIsNotAcknowledgedOnTheWordOfAnotherCluster(t *testing.T) {
	config := logicalObject("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	now := metav1.Unix(1, 0)
	config.SetDeletionTimestamp(&now)
	key := keyOf(kindNamed("ConfigMap"), config)
	recorded := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: copyRequest(key, "east").Name, Annotations: map[string]string{"kcp.io/cluster": "shop"},
	}}
	recorded.Spec.PhysicalCluster = "east"
	recorded.Spec.Object = placementv1alpha1.ObjectReference{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Name: "conf", UID: "c"}
	recorded.Status = placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalNamespace: physicalSpace, PhysicalUID: "below-c"}
	f := newFixture(t, []runtime.Object{logicalNamespace(), config}, nil, recorded)
	f.watch(t)
	ctx := scope.WithCluster(f.ctx, "shop")
	f.report.gate.admit("another", controlPlane, true) // who answers is not the one that is meant
	if _, err := f.reconcile(ctx, key); err != nil {
		t.Fatal(err)
	}
	if got := f.copyOf(t, key).Status.State; got != placementv1alpha1.CopySynced {
		t.Errorf("the Copy is %s", got)
	}
	f.report.gate.admit("down", controlPlane, true)
	if _, err := f.reconcile(ctx, key); err != nil {
		t.Fatal(err)
	}
	if got := f.copyOf(t, key).Status.State; got != placementv1alpha1.CopyRemoved {
		t.Errorf("the Copy is %s", got)
	}
}
