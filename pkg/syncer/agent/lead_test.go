package agent

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// candidate is an agent that would serve east.
func candidate(server *kubefake.Clientset, t terms) *Agent {
	return &Agent{target: "east", terms: t, up: upstream{kube: server}}
}

// leading runs work in the lead of an agent until the test or stop ends it.
func leading(t *testing.T, a *Agent, me string, work func(context.Context)) (stop context.CancelFunc, ended chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.lead(ctx, me, work); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return cancel, ended
}

func within(t *testing.T, d time.Duration, what string, c <-chan string) string {
	t.Helper()
	select {
	case s := <-c:
		return s
	case <-time.After(d):
		t.Fatalf("not within %s: %s", d, what)
		return ""
	}
}

func leaseOf(holder string, seconds int32) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.LeaseNamespace, Name: "east"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To[int32](0),
		},
	}
}

func TestOneAgentWorksAtATimeAndTheNextOneWhenItHasEnded(t *testing.T) {
	server := kubefake.NewClientset()
	patient := terms{duration: time.Minute, renewal: 30 * time.Second, retry: 20 * time.Millisecond}
	events := make(chan string, 10)
	work := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			events <- name + " begins"
			<-ctx.Done()
			<-time.After(50 * time.Millisecond) // the last request
			events <- name + " ends"
		}
	}
	stop, ended := leading(t, candidate(server, patient), "a", work("a"))
	got := []string{within(t, 10*time.Second, "the first one begins", events)}
	leading(t, candidate(server, patient), "b", work("b"))
	select {
	case e := <-events:
		t.Fatalf("%s beside a", e)
	case <-time.After(300 * time.Millisecond): // several looks of b
	}
	stop()
	<-ended
	got = append(got, within(t, 10*time.Second, "it ends", events), within(t, 10*time.Second, "the second one begins", events))
	if diff := cmp.Diff([]string{"a begins", "a ends", "b begins"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAHolderThatWasKilledIsSucceeded(t *testing.T) {
	server := kubefake.NewClientset(leaseOf("killed", 1))
	began := make(chan string, 1)
	start := time.Now()
	leading(t, candidate(server, terms{duration: time.Second, renewal: 500 * time.Millisecond, retry: 20 * time.Millisecond}), "b", func(ctx context.Context) {
		began <- "b"
		<-ctx.Done()
	})
	within(t, 10*time.Second, "another one begins", began)
	if waited := time.Since(start); waited < time.Second {
		t.Errorf("it did not wait until the Lease had expired: %s", waited)
	}
}

func TestAnAgentThatWasKilledAndStartedAgainNeedNotWait(t *testing.T) {
	server := kubefake.NewClientset(leaseOf("machine", 3600))
	began := make(chan string, 1)
	leading(t, candidate(server, usual()), "machine", func(ctx context.Context) {
		began <- "again"
		<-ctx.Done()
	})
	within(t, 10*time.Second, "it begins again", began)
}

func TestAnAgentThatCannotRenewItsLeaseStops(t *testing.T) {
	server := kubefake.NewClientset()
	var cut atomic.Bool
	server.PrependReactor("*", "leases", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		return cut.Load(), nil, errors.New("connection refused")
	})
	events := make(chan string, 2)
	_, ended := leading(t, candidate(server, terms{duration: 2 * time.Second, renewal: 200 * time.Millisecond, retry: 20 * time.Millisecond}), "a", func(ctx context.Context) {
		events <- "begins"
		<-ctx.Done()
		events <- "ends"
	})
	within(t, 10*time.Second, "it begins", events)
	cut.Store(true)
	within(t, 10*time.Second, "it ends", events)
	<-ended
}

func TestWorkThatEndsGivesTheLeaseBack(t *testing.T) {
	server := kubefake.NewClientset()
	_, ended := leading(t, candidate(server, usual()), "a", func(context.Context) {})
	<-ended
	lease, err := server.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace).Get(t.Context(), "east", metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		t.Errorf("the Lease is %+v, %v", lease, err)
	}
}

func TestOneProcessOfAMachineHasItsName(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names are not kept here")
	}
	first, free := identify("cp", t.Name())
	second, freeSecond := identify("cp", t.Name())
	if first == second {
		t.Errorf("two have the name %s", first)
	}
	freeSecond()
	if third, freeThird := identify("cp", t.Name()); third == first || third == second {
		t.Errorf("the name %s is used twice", third)
	} else {
		freeThird()
	}
	free()
	again, free := identify("cp", t.Name())
	defer free()
	if again != first {
		t.Errorf("started again it is %s, not %s", again, first)
	}
}
