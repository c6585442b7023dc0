package controller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestAnInformerSaysSinceWhenItHasNoWatch(t *testing.T) {
	forbidden := errors.New("forbidden")
	s := newServer()
	var listFails, watchFails atomic.Bool
	i := controller.NewInformer("config maps", &corev1.ConfigMap{}, controller.ListWatch{
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if listFails.Load() {
				return nil, forbidden
			}
			return s.List(ctx, o)
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if watchFails.Load() {
				return nil, forbidden
			}
			return s.Watch(ctx, o)
		},
	}, controller.InformerOptions[*corev1.ConfigMap]{Unscoped: true})
	if o, ok := i.Outage(); ok {
		t.Fatalf("before it runs: %+v", o)
	}
	begins := func() controller.Outage {
		t.Helper()
		var o controller.Outage
		before := time.Now()
		eventually(t, "there is an outage", func() (ok bool) { o, ok = i.Outage(); return ok })
		if !errors.Is(o.Err, forbidden) || o.Name != "config maps" || o.Since.Before(before) || o.Since.After(time.Now()) {
			t.Fatalf("since %s there is %+v", before, o)
		}
		return o
	}
	ends := func() {
		t.Helper()
		eventually(t, "it watches", func() bool { _, ok := i.Outage(); return !ok && s.watched() })
	}

	listed := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.lists
	}

	listFails.Store(true)
	go i.Run(t.Context())
	begins()
	listFails.Store(false)
	ends()

	// The rights go while it watches, which is seen when the watch ends.
	listFails.Store(true)
	watchFails.Store(true)
	if o, ok := i.Outage(); ok {
		t.Fatalf("it still watches: %+v", o)
	}
	s.expire()
	first := begins()
	lists := listed()
	listFails.Store(false) // and then each list succeeds, and no watch
	eventually(t, "it has listed", func() bool { return listed() > lists })
	if o, ok := i.Outage(); !ok || !o.Since.Equal(first.Since) {
		t.Fatalf("it lists and does not watch: %t, %+v", ok, o)
	}
	watchFails.Store(false)
	ends()
}
