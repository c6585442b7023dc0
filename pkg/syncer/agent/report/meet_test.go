package report

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection/connectiontest"
)

// registration is a PhysicalCluster, a reporter of it, and what it is led to.
type registration struct {
	*testing.T
	connectiontest.Balancer
	down     connection.Physical
	reporter *Reporter
}

func register(t *testing.T, server *connectiontest.ClusterServer) *registration {
	t.Helper()
	r := &registration{T: t}
	r.To.Store(server)
	down, gate, err := connection.NewPhysical(&rest.Config{
		Host: "https://physical", QPS: -1, Dial: r.Dial, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}, func(next http.RoundTripper) http.RoundTripper { return next }, controller.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Fresh)
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	pc.Status.ControlPlane = "cp-1"
	r.down = down
	r.reporter = New(Config{
		PhysicalCluster: "east", Interval: time.Second, Up: connection.ControlPlane{Atoll: atollfake.NewSimpleClientset(pc)}, Down: down, Gate: gate,
	})
	return r
}

func write(t *testing.T, p connection.Physical, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(name)})
}

func (r *registration) get() *fleetv1alpha1.PhysicalCluster {
	r.Helper()
	pc, err := r.reporter.up.Atoll.FleetV1alpha1().PhysicalClusters().Get(r.Context(), "east", metav1.GetOptions{})
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
	if _, err := r.reporter.up.Atoll.FleetV1alpha1().PhysicalClusters().Update(r.Context(), pc, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *registration) accept() {
	r.Helper()
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.Identity.Accepted = pc.Status.Identity.UID })
}

// lead changes where the way to the physical cluster leads, for each connection.
func (r *registration) lead(server *connectiontest.ClusterServer) {
	r.To.Load().CloseClientConnections()
	r.To.Store(server)
	r.reporter.gate.Fresh()
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
	if got := r.reporter.gate.Admitted(); got != open || r.reporter.world.Identity != open {
		r.Errorf("the gate is open for %q, a session would begin with %q, not %q", got, r.reporter.world.Identity, open)
	}
	if err := write(r.T, r.down, want); (err == nil) != (open != "") {
		r.Errorf("a write: %v", err)
	}
}

func TestAnotherClusterIsReportedAndNothingElseOfIt(t *testing.T) {
	east, west := connectiontest.NewClusterServer(t, "e", true), connectiontest.NewClusterServer(t, "w", true)
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
	if got := west.Writes(); len(got) != 0 {
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
	east, west := connectiontest.NewClusterServer(t, "e", true), connectiontest.NewClusterServer(t, "w", true)
	r := register(t, east)
	r.report("False Identifying", "")
	r.accept()
	r.report("True Heartbeat", "e")
	r.lead(west)
	if err := write(t, r.down, "x"); !errors.Is(err, connection.ErrNotMeant) {
		t.Fatalf("written to another cluster: %v", err)
	}
	r.lead(east) // who is asked next is the right one again
	r.report("False OtherCluster", "")
	r.report("True Heartbeat", "e")
}

func TestAPhysicalClusterThatCannotBeConnectedToIsReportedAtOnce(t *testing.T) {
	east := connectiontest.NewClusterServer(t, "e", true)
	r := register(t, east)
	r.report("False Identifying", "")
	r.accept()
	r.report("True Heartbeat", "e")
	select {
	case <-r.reporter.wake:
		t.Error("it is reported anew although it answers")
	default:
	}
	east.Close()
	for range 2 { // the first may meet the end of a connection that there was
		if err := write(t, r.down, "x"); err == nil {
			t.Fatal("what does not listen has taken a write")
		}
	}
	select {
	case <-r.reporter.wake:
	default:
		t.Error("it is reported with the next look only")
	}
}

func TestACredentialThatDoesNotShowKubeSystemIsExplained(t *testing.T) {
	east := connectiontest.NewClusterServer(t, "e", true)
	east.Forbidden = true
	r := register(t, east)
	r.report("False Forbidden", "")
	if m := r.get().Status.Conditions[0].Message; !strings.Contains(m, "kube-system") {
		t.Errorf("it says %q", m)
	}
	east.Set(func() { east.Forbidden = false })
	r.report("False Identifying", "")
	r.accept()
	r.report("True Heartbeat", "e")
	// Silence changes nothing: what is known of a connection stays known.
	east.Set(func() { east.Forbidden = true })
	r.report("False Forbidden", "e")
}

func TestAnEmptiedClusterIsFilledAgainOnlyAfterAConfirmation(t *testing.T) {
	east := connectiontest.NewClusterServer(t, "e", true)
	r := register(t, east)
	r.report("False Identifying", "")
	r.accept()
	expected := func() int { return 2 }
	meet := func(want error) {
		t.Helper()
		if err := r.reporter.Meet(t.Context(), expected); !errors.Is(err, want) {
			t.Errorf("meeting it: %v, not %v", err, want)
		}
	}
	r.report("True Heartbeat", "e")
	meet(nil) // nothing was ever there
	east.Set(func() { east.Ours = 2 })
	r.report("True Heartbeat", "e")
	if !r.get().Status.Identity.Populated {
		t.Fatal("that namespaces are there is not recorded")
	}
	r.report("True Heartbeat", "e")
	meet(nil)

	// It has lost everything, and does not answer when it is asked who it is.
	east.Set(func() { east.Ours, east.Forbidden = 0, true })
	meet(connection.ErrLost)
	east.Set(func() { east.Forbidden = false })
	meet(connection.ErrLost)
	r.report("False Emptied", "")
	emptied := r.get().Status.Identity.Emptied
	if emptied == nil {
		t.Fatal("when it was emptied is not recorded")
	}
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Identity = "e" })
	r.report("False Emptied", "") // that is another confirmation

	// Restored, it needs none.
	east.Set(func() { east.Ours = 2 })
	r.report("False Identifying", "")
	r.report("True Heartbeat", "e")
	meet(nil)
	east.Set(func() { east.Ours = 0 })
	meet(connection.ErrLost)

	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Emptied = pc.Status.Identity.Emptied })
	r.report("False Identifying", "")
	r.report("True Heartbeat", "e")
	meet(nil)
}
