package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestNothingIsSyncedWhileThePhysicalClusterIsGivenUp(t *testing.T) {
	r := newReporter("east", reportInterval, upstream{}, physical{kube: kubefake.NewClientset()}, meant(kubefake.NewClientset(), "down"))
	known := world{controlPlane: controlPlane, apis: []string{"/v1/pods"}, identity: "down"}
	forgotten := known
	forgotten.forgotten = true

	if !r.learn(known, nil) || r.learn(known, nil) {
		t.Error("what is learnt is news once")
	}
	before, err := r.await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		r.changed(t.Context(), workload.Builtin(), before)
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
	if _, err := r.await(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another session begins: %v", err)
	}
	for _, c := range r.conditions(1) {
		if c.Type != "Ready" {
			t.Errorf("it says of itself: %s %s %s", c.Type, c.Status, c.Reason)
		}
	}
	r.learn(known, nil)
	after, err := r.await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(known, after, cmp.AllowUnexported(world{})); diff != "" {
		t.Errorf("taken back, it goes on (-want +got)\n%s", diff)
	}
}
