package presence

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/scope"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// leaseOf is the Lease of a server, renewed some time ago.
func leaseOf(cluster logicalcluster.Name, namespace, address string, ago time.Duration, labels map[string]string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: nameOf(address), Labels: labels, UID: "u", ResourceVersion: "1",
			Annotations: map[string]string{logicalcluster.AnnotationKey: cluster.String()},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(address), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago)))},
	}
}

func TestOthersAreServersThatAreThere(t *testing.T) {
	marked, in := map[string]string{Label: "true"}, metav1.NamespaceSystem
	leases := []*coordinationv1.Lease{
		leaseOf(scope.Root, in, "c:6443", 59*time.Second, marked),
		leaseOf(scope.Root, in, "b:6443", 0, marked),
		leaseOf(scope.Root, in, "b:6444", -time.Second, marked),
		leaseOf(scope.Root, in, "own:6443", 0, marked),
		leaseOf(scope.Root, in, "gone:6443", time.Minute, marked),
		leaseOf(scope.Root, in, "east", 0, nil),
		leaseOf(scope.Root, in, "", 0, marked),
		leaseOf(scope.Root, "default", "elsewhere:6443", 0, marked),
		leaseOf("shop", in, "tenant:6443", 0, marked),
	}
	if diff := cmp.Diff([]string{"b:6443", "b:6444", "c:6443"}, others(leases, "own:6443", now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A server whose clock is minutes behind or ahead is there as long as it renews its Lease, and no longer.
func TestAServerIsThereWhateverItsClockSays(t *testing.T) {
	for _, ago := range []time.Duration{10 * time.Minute, 0, -10 * time.Minute} {
		lease := leaseOf(scope.Root, metav1.NamespaceSystem, "b:6443", ago, map[string]string{Label: "true"})
		clock := clocktesting.NewFakeClock(now)
		c := New(Config{Address: "own:6443", Leases: func() []*coordinationv1.Lease { return []*coordinationv1.Lease{lease} }, Clock: clock})
		there := func() bool { return len(c.Others()) > 0 }
		if there() != (ago <= 0) { // found at the start
			t.Errorf("renewed %s ago when this server starts: it is there: %v", ago, there())
		}
		for range 3 {
			clock.Step(renewInterval)
			lease = lease.DeepCopy()
			lease.Spec.RenewTime = &metav1.MicroTime{Time: lease.Spec.RenewTime.Add(renewInterval)}
			if !there() {
				t.Errorf("it is %s behind, has just renewed its Lease, and is not there", ago)
			}
		}
		clock.Step(lifetime - time.Second)
		if !there() {
			t.Errorf("it is %s behind, and is not believed for as long as others", ago)
		}
		clock.Step(time.Second)
		if there() {
			t.Errorf("it is %s behind, and is there although it renews nothing", ago)
		}
	}
}

func TestAServerHoldsItsLeaseUntilItLeaves(t *testing.T) {
	kube := fake.NewClientset()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	c := New(Config{Kube: kube, Address: "10.0.0.1:6443", Leases: func() []*coordinationv1.Lease { return nil }})
	go func() { defer close(ended); c.Run(ctx) }()
	leases := kube.CoordinationV1().Leases(metav1.NamespaceSystem)
	var held *coordinationv1.Lease
	for deadline := time.Now().Add(30 * time.Second); held == nil; time.Sleep(10 * time.Millisecond) {
		if l, err := leases.Get(ctx, nameOf(c.Address), metav1.GetOptions{}); err == nil {
			held = l
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if held.Labels[Label] == "" || ptr.Deref(held.Spec.HolderIdentity, "") != c.Address {
		t.Errorf("the Lease is %v", held)
	}
	cancel()
	<-ended
	if _, err := leases.Get(t.Context(), nameOf(c.Address), metav1.GetOptions{}); err == nil {
		t.Error("the server has left, its Lease is there")
	}
}

func TestLeasesOfServersThatNeverCameBackAreDeleted(t *testing.T) {
	marked, in := map[string]string{Label: "true"}, metav1.NamespaceSystem
	kept, gone := leaseOf(scope.Root, in, "b:6443", 59*time.Minute, marked), leaseOf(scope.Root, in, "c:6443", time.Hour, marked)
	east := leaseOf(scope.Root, in, "east", 24*time.Hour, nil)
	kube := fake.NewClientset(kept, gone, east)
	c := New(Config{Kube: kube, Address: "own:6443", Leases: func() []*coordinationv1.Lease { return []*coordinationv1.Lease{kept, gone, east} }})
	c.Clock = clocktesting.NewFakeClock(now)
	c.collect(t.Context())
	left, err := kube.CoordinationV1().Leases(in).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left.Items {
		if l.Name == gone.Name {
			t.Errorf("%s is there", l.Name)
		}
	}
	if len(left.Items) != 2 {
		t.Errorf("%d Leases are left, want 2", len(left.Items))
	}
}
