package report

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

func newReporter() *Reporter {
	kube := kubefake.NewClientset()
	return New(Config{
		PhysicalCluster: "east", Interval: time.Second, Down: connection.Physical{Kube: kube},
		Gate: connection.NewGate(kube, func() {}),
	})
}

func TestNothingIsSyncedWhileThePhysicalClusterIsGivenUp(t *testing.T) {
	r := newReporter()
	known := World{ControlPlane: "cp-1", APIs: []string{"/v1/pods"}, Identity: "down"}
	forgotten := known
	forgotten.Forgotten = true

	if !r.learn(known, nil) || r.learn(known, nil) {
		t.Error("what is learnt is news once")
	}
	before, err := r.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		r.Changed(t.Context(), before)
		close(ended)
	}()
	r.learn(forgotten, nil)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the session goes on")
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Await(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another session begins: %v", err)
	}
	for _, c := range r.conditions(1) {
		if c.Type != "Ready" {
			t.Errorf("it says of itself: %s %s %s", c.Type, c.Status, c.Reason)
		}
	}
	r.learn(known, nil)
	after, err := r.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(known, after, cmp.AllowUnexported(World{})); diff != "" {
		t.Errorf("taken back, it goes on (-want +got)\n%s", diff)
	}
}

func TestWhatThePhysicalClusterServesEndsNoSessionButIsNotified(t *testing.T) {
	before := World{ControlPlane: "cp-1", Identity: "down", APIs: []string{"/v1/pods"}}
	for name, c := range map[string]struct {
		apis []string
	}{
		"a custom resource": {[]string{"/v1/pods", "example.com/v1/things"}},
		"another kind":      {[]string{"/v1/pods", "/v1/services"}},
		"a kind less":       {[]string{"/v1/secrets"}},
	} {
		r := newReporter()
		r.learn(before, nil)
		_, changed := r.World()
		after := before
		after.APIs = c.apis
		r.learn(after, nil)
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		r.Changed(short, before)
		if short.Err() == nil {
			t.Errorf("%s: the session ends", name)
		}
		select {
		case <-changed:
		default:
			t.Errorf("%s: it is not notified of what is served", name)
		}
		if now, _ := r.World(); !slices.Equal(now.APIs, c.apis) {
			t.Errorf("%s: it is notified of %v", name, now.APIs)
		}
		cancel()
	}
}

func TestSilenceChangesNothingOfWhatIsServed(t *testing.T) {
	r := newReporter()
	known := World{ControlPlane: "cp-1", Identity: "down", APIs: []string{"/v1/pods"}}
	r.learn(known, nil)
	silent := known
	silent.APIs = nil
	if r.learn(silent, nil) {
		t.Error("silence is news")
	}
	w, err := r.Await(t.Context())
	if diff := cmp.Diff(known, w, cmp.AllowUnexported(World{})); diff != "" || err != nil {
		t.Errorf("(-want +got) %v\n%s", err, diff)
	}
}
