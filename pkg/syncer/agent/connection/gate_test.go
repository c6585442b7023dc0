package connection

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection/connectiontest"
)

func TestNamespacesCountOnlyWhereSomeHaveBeenSeen(t *testing.T) {
	g := NewGate(nil, func() {})
	if g.Expects() != 0 || g.Count() != 0 {
		t.Error("namespaces are expected of which nobody knows")
	}
	g.Expect(func() int { return 3 })
	for _, populated := range []bool{false, true, false} {
		g.Admit("down", "cp", populated)
		if got := g.Expects(); (got == 3) != populated || g.Count() != 3 {
			t.Errorf("populated %v: %d are expected of %d", populated, got, g.Count())
		}
	}
	if g.Admitted() != "down" || g.ControlPlane() != "cp" {
		t.Errorf("it is open for %q of %q", g.Admitted(), g.ControlPlane())
	}
}

func TestWhatWasNoticedIsReportedOnceAndRaisesAnAlarm(t *testing.T) {
	g := NewGate(nil, func() {})
	g.Notice("early", false) // before anybody listens
	alarms := 0
	g.OnAlarm(func() { alarms++ })
	g.Notice("other", false)
	g.Notice("", true)
	if other, lost := g.Noticed(); other != "other" || !lost || alarms != 2 {
		t.Errorf("noticed %q, lost %v, %d alarms", other, lost, alarms)
	}
	if other, lost := g.Noticed(); other != "" || lost {
		t.Errorf("again: %q, %v", other, lost)
	}
}

func TestOurNamespacesAreThoseOfTheControlPlane(t *testing.T) {
	ours := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{placementv1alpha1.ManagedByLabel: "cp"}}}
	g := NewGate(kubefake.NewClientset(ours), func() {})
	for controlPlane, want := range map[string]syncer.Presence{"cp": syncer.PresenceSome, "another": syncer.PresenceNone} {
		if got, err := g.Namespaces(t.Context(), controlPlane); got != want || err != nil {
			t.Errorf("of %s: %s, %v", controlPlane, got, err)
		}
	}
	silent := kubefake.NewClientset()
	silent.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	if got, err := NewGate(silent, func() {}).Namespaces(t.Context(), "cp"); got != syncer.PresenceUnknown || err == nil {
		t.Errorf("silence says %s, %v", got, err)
	}
}

func TestAnIdentityThatCannotBeOneIsNotBelieved(t *testing.T) {
	for name, uid := range map[string]types.UID{"none": "", "endless": types.UID(strings.Repeat("x", maxUID+1))} {
		g := NewGate(kubefake.NewClientset(connectiontest.KubeSystem(uid)), func() {})
		if _, _, err := g.Ask(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestALockThatIsHeldDuringARequestIsWaitedForUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l RequestLock
		unlock, err := l.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Lock(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two hold it: %v", err)
		}
		unlock()
		again, err := l.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again()
		began := time.Now()
		Sleep(t.Context(), time.Minute)
		done, stop := context.WithCancel(t.Context())
		stop()
		Sleep(done, time.Hour)
		if slept := time.Since(began); slept != time.Minute {
			t.Errorf("slept %s", slept)
		}
	})
}

func TestAPatchOfAStatusIsTakenRefusedOrNotAnswered(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		done bool
		fail bool
	}{
		"taken":          {nil, true, false},
		"gone meanwhile": {apierrors.NewNotFound(pods.GroupResource(), "app"), true, false},
		"another by now": {apierrors.NewConflict(pods.GroupResource(), "app", nil), true, false},
		"refused":        {apierrors.NewForbidden(pods.GroupResource(), "app", nil), false, false},
		"no answer":      {errors.New("connection refused"), false, true},
	} {
		client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
		sub := ""
		client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			sub = a.GetSubresource()
			return true, &unstructured.Unstructured{Object: map[string]any{}}, c.err
		})
		done, err := PatchStatus(t.Context(), client.Resource(pods).Namespace("web"), "app", &unstructured.Unstructured{Object: map[string]any{}})
		if done != c.done || (err != nil) != c.fail || sub != "status" {
			t.Errorf("%s: done %v, %v, of %q", name, done, err, sub)
		}
	}
}

func TestAConnectionThatCannotBeMadeIsNone(t *testing.T) {
	made, failed := 0, 0
	dial := identified(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }, func() { made++ }, func() { failed++ })
	if conn, err := dial(t.Context(), "tcp", "east:443"); err == nil || conn != nil || made != 0 || failed != 1 {
		t.Errorf("%v, %v, made %d, failed %d", conn, err, made, failed)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(over, "tcp", "east:443"); err == nil || failed != 1 {
		t.Errorf("who does not want it any more has it fail: %v, %d", err, failed)
	}
}

func TestARefusalToSayWhoItIsAnswersForAllWhoComeWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubefake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "east"}})
		asked := 0
		var refusal error
		client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			return refusal != nil, nil, refusal
		})
		g := NewGate(client, func() {})
		g.Admit("east", "cp", false)
		confirm := func(times, want int, confirmed bool) {
			t.Helper()
			asked = 0
			for range times {
				if err := g.Confirm(t.Context()); (err == nil) != confirmed {
					t.Errorf("with %v, it is confirmed: %v", refusal, err)
				}
			}
			if asked != want {
				t.Errorf("with %v, %d checks asked %d times, not %d", refusal, times, asked, want)
			}
		}
		confirm(3, 3, true)
		refusal = apierrors.NewServiceUnavailable("it begins")
		confirm(3, 3, false)
		refusal = apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, metav1.NamespaceSystem, nil)
		confirm(3, 1, false)
		refusal = nil
		confirm(2, 0, false)
		time.Sleep(refusalDelay)
		confirm(3, 3, true)
	})
}
