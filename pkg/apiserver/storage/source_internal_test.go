package storage

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const testTimeout = 30 * time.Second

// source is a watch cache that a test plays: lists are empty and at version,
// watches deliver what the test sends.
type source struct {
	storage.Interface
	version string
	opened  chan opened
}

// opened is a watch that the hub asked for.
type opened struct {
	from   string
	events chan watch.Event
	out    chan watch.Event
}

func (o opened) ResultChan() <-chan watch.Event { return o.out }
func (opened) Stop()                            {}

// run ends like a watch does: when the sender ends it, or its context ends.
func (o opened) run(ctx context.Context) {
	defer close(o.out)
	for {
		select {
		case e, ok := <-o.events:
			if !ok {
				return
			}
			o.out <- e
		case <-ctx.Done():
			return
		}
	}
}

func (s *source) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	list.(*example.PodList).ResourceVersion = s.version
	return nil
}

func (s *source) Watch(ctx context.Context, _ string, o storage.ListOptions) (watch.Interface, error) {
	w := opened{from: o.ResourceVersion, events: make(chan watch.Event, 100), out: make(chan watch.Event)}
	go w.run(ctx)
	s.opened <- w
	return w, nil
}

func newTestHub(t *testing.T) (*hub, *source) {
	t.Helper()
	src := &source{version: "100", opened: make(chan opened, 100)}
	r := &resource{
		keys:        keys{prefix: "/pods"},
		keyFunc:     func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		baseAttrs:   storage.DefaultNamespaceScopedAttr,
		targets:     TargetsOf,
		newFunc:     func() runtime.Object { return &example.Pod{} },
		newListFunc: func() runtime.Object { return &example.PodList{} },
	}
	h := newHub(r, src, &recentObjects{})
	h.now = func() time.Time { return time.Unix(1000, 0) }
	t.Cleanup(h.close)
	return h, src
}

// begin starts the hub and returns the watch that it opened.
func begin(t *testing.T, h *hub, src *source) opened {
	t.Helper()
	if err := h.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return src.next(t)
}

func (s *source) next(t *testing.T) opened {
	t.Helper()
	select {
	case o := <-s.opened:
		return o
	case <-time.After(testTimeout):
		t.Fatal("the hub opened no watch")
		return opened{}
	}
}

func event(kind watch.EventType, rv int, cluster, name string, targets ...string) watch.Event {
	all := placementv1alpha1.Targets{}
	for _, target := range targets {
		all[target] = placementv1alpha1.Target{}
	}
	return watch.Event{Type: kind, Object: &example.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, ResourceVersion: strconv.Itoa(rv),
		Annotations: map[string]string{
			logicalcluster.AnnotationKey:        cluster,
			placementv1alpha1.TargetsAnnotation: all.String(),
		},
	}}}
}
