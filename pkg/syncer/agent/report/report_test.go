package report

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
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

// What the server says of the PhysicalCluster, and whether anything is concluded:
//
//	404, about it  it is not registered: the reporter ends
//	404, a page    nothing: whoever is before the server has no route for a moment
//	401            nothing: it may be there in a moment
func TestACredentialThatIsNotAcceptedSaysNothingOfThePhysicalCluster(t *testing.T) {
	for want, answer := range map[error]*apierrors.StatusError{
		errUnregistered: apierrors.NewNotFound(fleetv1alpha1.Resource("physicalclusters"), "east"),
		errNotAccepted:  apierrors.NewUnauthorized("no"),
	} {
		atoll := fake.NewClientset()
		atoll.PrependReactor("get", "physicalclusters", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, answer })
		r := newReporter()
		r.up = connection.ControlPlane{Atoll: atoll}
		if done, err := r.once(t.Context()); done || !errors.Is(err, want) {
			t.Errorf("%v: %t, %v, want %v", answer, done, err, want)
		}
	}
	// Clients note in its details what they asked for.
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", fleetv1alpha1.Resource("physicalclusters"), "east", "404 page not found", 0, true)
	atoll := fake.NewClientset()
	atoll.PrependReactor("get", "physicalclusters", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, page })
	r := newReporter()
	r.up = connection.ControlPlane{Atoll: atoll}
	if done, err := r.once(t.Context()); done || err == nil || errors.Is(err, errUnregistered) {
		t.Errorf("a page: %t, %v", done, err)
	}
}
