package controller_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// script is a reconcile function that answers each call for a key in turn.
type script struct {
	mu      sync.Mutex
	answers []error
	calls   int
}

func (s *script) reconcile(context.Context, string) (controller.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if len(s.answers) == 0 {
		return controller.Result{}, nil
	}
	err := s.answers[0]
	s.answers = s.answers[1:]
	if err != nil && err.Error() == "panic" {
		panic("as scripted")
	}
	return controller.Result{}, err
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func TestAKeyIsRetriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	s := &script{answers: []error{
		errors.New("failed"),
		fmt.Errorf("wrapped: %w", apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("changed"))),
		errors.New("panic"),
		nil,
	}}
	c := controller.New("test", 1, s.reconcile)
	run(t, c.Run)
	c.Enqueue("x")
	eventually(t, "the fourth call succeeds", func() bool { return s.count() == 4 })
}

func TestATerminalErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	s := &script{answers: []error{fmt.Errorf("giving up: %w", controller.TerminalError(errors.New("never")))}}
	c := controller.New("test", 1, s.reconcile)
	run(t, c.Run)
	c.Enqueue("x")
	eventually(t, "the call is made", func() bool { return s.count() == 1 })
	c.Enqueue("y")
	eventually(t, "the next key is called", func() bool { return s.count() == 2 })
	c.EnqueueAfter("z", 50*time.Millisecond) // longer than a first retry would take
	eventually(t, "the delayed key is called", func() bool { return s.count() >= 3 })
	if s.count() != 3 {
		t.Errorf("%d calls, want 3", s.count())
	}
}

func TestARequestIsReconciledInItsLogicalCluster(t *testing.T) {
	t.Parallel()
	seen := make(chan logicalcluster.Name, 2)
	c := controller.New("test", 1, func(ctx context.Context, _ controller.Request) (controller.Result, error) {
		name, _ := scope.ClusterFrom(ctx)
		seen <- name
		return controller.Result{}, nil
	})
	run(t, c.Run)
	c.Enqueue(at("a", "default", "x"))
	if diff := cmp.Diff(logicalcluster.Name("a"), <-seen); diff != "" {
		t.Error(diff)
	}
	c.Enqueue(at("b", "", "x"))
	if diff := cmp.Diff(logicalcluster.Name("b"), <-seen); diff != "" {
		t.Error(diff)
	}
}

func TestAResultAsksForAnotherCall(t *testing.T) {
	t.Parallel()
	calls := make(chan struct{}, 10)
	first := true
	c := controller.New("test", 1, func(context.Context, string) (controller.Result, error) {
		calls <- struct{}{}
		if first {
			first = false
			return controller.Result{RequeueAfter: time.Millisecond}, nil
		}
		return controller.Result{}, nil
	})
	run(t, c.Run)
	c.Enqueue("x")
	<-calls
	<-calls
}

func TestRunReturnsWhenTheLastCallHas(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	c := controller.New("test", 2, func(context.Context, string) (controller.Result, error) {
		close(entered)
		<-leave
		return controller.Result{}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	c.Enqueue("x")
	<-entered
	cancel()
	select {
	case <-done:
		t.Fatal("Run returned while a call was running")
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	<-done
}

// Calls of one logical cluster that do not end hold up another one by none.
func TestCallsThatDoNotEndLeaveWorkersToOthers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := map[logicalcluster.Name]int{}
	called := func(c logicalcluster.Name) int {
		mu.Lock()
		defer mu.Unlock()
		return calls[c]
	}
	release := make(chan struct{})
	c := controller.New("test", 6, func(ctx context.Context, r controller.Request) (controller.Result, error) {
		mu.Lock()
		calls[r.Cluster]++
		mu.Unlock()
		if r.Cluster == "hangs" {
			<-release
		}
		return controller.Result{}, nil
	}, controller.WithShares)
	for i := range 20 {
		c.Enqueue(controller.Request{Cluster: "hangs", Name: fmt.Sprint(i)})
	}
	go c.Run(t.Context())
	eventually(t, "four calls wait", func() bool { return called("hangs") == 4 })
	for i := range 50 {
		c.Enqueue(controller.Request{Cluster: "other", Name: fmt.Sprint(i)})
	}
	eventually(t, "others are called", func() bool { return called("other") == 50 })
	if n := called("hangs"); n != 4 {
		t.Errorf("%d calls wait", n)
	}
	close(release)
	eventually(t, "all are called", func() bool { return called("hangs") == 20 })
}
