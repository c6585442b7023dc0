package election

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// candidate is an agent that would serve east.
func candidate(server *kubefake.Clientset, t Terms) *Election {
	return &Election{PhysicalCluster: "east", Terms: t, Leases: server.CoordinationV1(), Fence: &Fence{}}
}

// leading runs work in the lead of an agent until the test or stop ends it.
func leading(t *testing.T, a *Election, me string, work func(context.Context)) (stop context.CancelFunc, ended chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Lead(ctx, Named(me, func() {}), work); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return cancel, ended
}

// leadingAs is leading with an identity of its own.
func leadingAs(t *testing.T, a *Election, me Identity, work func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Lead(ctx, me, work); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
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
	patient := Terms{Duration: time.Minute, Renewal: 30 * time.Second, Retry: 20 * time.Millisecond}
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
	leading(t, candidate(server, Terms{Duration: time.Second, Renewal: 500 * time.Millisecond, Retry: 20 * time.Millisecond}), "b", func(ctx context.Context) {
		began <- "b"
		<-ctx.Done()
	})
	within(t, 10*time.Second, "another one begins", began)
	if waited := time.Since(start); waited < time.Second {
		t.Errorf("it did not wait until the Lease had expired: %s", waited)
	}
}

func TestAnAgentThatWasKilledAndStartedAgainNeedNotWait(t *testing.T) {
	server := kubefake.NewClientset(leaseOf("machine_boot_1@old", 3600))
	began := make(chan string, 1)
	me := Named(inPlace("machine", "boot", "net:[1]", "new"), func() {})
	leadingAs(t, candidate(server, DefaultTerms()), me, func(ctx context.Context) {
		began <- "again"
		<-ctx.Done()
	})
	within(t, 10*time.Second, "it begins again", began)
}

// Containers may share hostname and kernel, and each have a place in a network
// namespace of its own.
func TestAnAgentInAnotherNetworkNamespaceWaitsForTheHolder(t *testing.T) {
	for name, me := range map[string]Identity{
		"another network namespace": Named(inPlace("machine", "boot", "net:[12]", "new"), func() {}),
		"another start of a kernel": Named(inPlace("machine", "other", "net:[1]", "new"), func() {}),
		"no place":                  Named("machine_boot_1_new", func() {}),
	} {
		t.Run(name, func(t *testing.T) {
			server := kubefake.NewClientset(leaseOf("machine_boot_1@old", 3600))
			began := make(chan string, 1)
			quick := Terms{Duration: time.Minute, Renewal: 30 * time.Second, Retry: 10 * time.Millisecond}
			leadingAs(t, candidate(server, quick), me, func(context.Context) { began <- "beside it" })
			looks := func() (n int) {
				for _, a := range server.Actions() {
					if a.GetVerb() == "get" {
						n++
					}
				}
				return n
			}
			for deadline := time.Now().Add(10 * time.Second); looks() < 5; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it does not look")
				}
			}
			select {
			case e := <-began:
				t.Errorf("it works %s", e)
			default:
			}
		})
	}
}

// flaky is a server of Leases that can be cut off, and compares versions.
type flaky struct {
	*kubefake.Clientset
	cut atomic.Bool
}

func newFlaky() *flaky {
	f := &flaky{Clientset: kubefake.NewClientset()}
	f.PrependReactor("*", "leases", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		return f.cut.Load(), nil, errors.New("connection refused")
	})
	version := 0
	f.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		if f.cut.Load() {
			return true, nil, errors.New("connection refused")
		}
		lease := a.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).DeepCopy()
		now, err := f.Tracker().Get(a.GetResource(), lease.Namespace, lease.Name)
		if err != nil {
			return true, nil, err
		}
		if now.(*coordinationv1.Lease).ResourceVersion != lease.ResourceVersion {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), lease.Name, nil)
		}
		version++
		lease.ResourceVersion = strconv.Itoa(version)
		return true, lease, f.Tracker().Update(a.GetResource(), lease, lease.Namespace)
	})
	return f
}

// eventually waits for the fence to be open, or closed.
func eventually(t *testing.T, f *Fence, open bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		_, leave, err := f.enter(t.Context())
		if err == nil {
			leave()
		}
		if (err == nil) == open {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the fence is not open=%t: %v", open, err)
		}
	}
}

func TestAnAgentThatCannotRenewItsLeaseWritesNothingUntilItHasItAgain(t *testing.T) {
	server := newFlaky()
	a := candidate(server.Clientset, Terms{Duration: 2 * time.Second, Renewal: 200 * time.Millisecond, Retry: 20 * time.Millisecond})
	events := make(chan string, 2)
	stop, _ := leading(t, a, "a", func(ctx context.Context) {
		events <- "begins"
		<-ctx.Done()
		events <- "ends"
	})
	within(t, 10*time.Second, "it begins", events)
	eventually(t, a.Fence, true)
	writing, leave, err := a.Fence.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	for range 2 {
		server.cut.Store(true)
		eventually(t, a.Fence, false)
		select {
		case <-writing.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("a write goes on without the Lease")
		}
		server.cut.Store(false)
		eventually(t, a.Fence, true)
	}
	select {
	case e := <-events:
		t.Errorf("work %s, although nobody else had the Lease", e)
	default:
	}
	stop()
	within(t, 10*time.Second, "it ends", events)
}

func TestWorkEndsWhenSomebodyElseHasHeldTheLease(t *testing.T) {
	for name, change := range map[string]func(*coordinationv1.Lease){
		"and holds it":        func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("b") },
		"and has given it up": func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") },
		"and we hold it again, in another term": func(l *coordinationv1.Lease) {
			l.Spec.LeaseTransitions = ptr.To(*l.Spec.LeaseTransitions + 2)
		},
		"perhaps: it was removed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			server := newFlaky()
			a := candidate(server.Clientset, Terms{Duration: time.Minute, Renewal: 200 * time.Millisecond, Retry: 20 * time.Millisecond})
			events := make(chan string, 2)
			_, ended := leading(t, a, "a", func(ctx context.Context) {
				events <- "begins"
				<-ctx.Done()
				if _, _, err := a.Fence.enter(context.WithoutCancel(ctx)); err == nil {
					events <- "ends, and writes"
				}
				events <- "ends"
			})
			within(t, 10*time.Second, "it begins", events)
			server.cut.Store(true)
			eventually(t, a.Fence, false)
			leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
			obj, err := server.Tracker().Get(leases, fleetv1alpha1.LeaseNamespace, "east")
			if err != nil {
				t.Fatal(err)
			}
			if change == nil {
				err = server.Tracker().Delete(leases, fleetv1alpha1.LeaseNamespace, "east")
			} else {
				lease := obj.(*coordinationv1.Lease).DeepCopy()
				lease.ResourceVersion = "other"
				change(lease)
				err = server.Tracker().Update(leases, lease, fleetv1alpha1.LeaseNamespace)
			}
			if err != nil {
				t.Fatal(err)
			}
			server.cut.Store(false)
			if e := within(t, 10*time.Second, "it ends", events); e != "ends" {
				t.Errorf("work %s", e)
			}
			<-ended
		})
	}
}

func TestWorkThatEndsGivesTheLeaseBack(t *testing.T) {
	server := kubefake.NewClientset()
	_, ended := leading(t, candidate(server, DefaultTerms()), "a", func(context.Context) {})
	<-ended
	lease, err := server.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace).Get(t.Context(), "east", metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		t.Errorf("the Lease is %+v, %v", lease, err)
	}
}

func TestNoTwoAgentsHaveOneNameAndOneHasThePlace(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("places are not kept here")
	}
	first := Named(Identify("cp", t.Name()))
	second := Named(Identify("cp", t.Name()))
	defer second.Free()
	if first.Name == second.Name || first.place == "" || second.place != "" {
		t.Errorf("%+v and %+v live at the same time", first, second)
	}
	if second.succeeds(first.Name) || first.succeeds(second.Name) || first.succeeds(first.Name) {
		t.Error("one takes another who lives, or itself, for dead")
	}
	first.Free()
	again := Named(Identify("cp", t.Name()))
	defer again.Free()
	if again.Name == first.Name || !again.succeeds(first.Name) {
		t.Errorf("started again it is %+v, after %+v", again, first)
	}
	if again.succeeds(second.Name) || again.succeeds("") || again.succeeds("somebody") {
		t.Error("it takes somebody of elsewhere for dead")
	}
}
