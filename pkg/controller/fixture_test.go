package controller_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// server is a source of config maps in memory.
type server struct {
	mu       sync.Mutex
	version  int
	objects  map[controller.Request]*corev1.ConfigMap
	watchers []*watch.RaceFreeFakeWatcher
	lists    int
	clusters []logicalcluster.Name // of each list and watch
	options  []metav1.ListOptions
}

func newServer() *server {
	return &server{objects: map[controller.Request]*corev1.ConfigMap{}}
}

func (s *server) record(ctx context.Context, o metav1.ListOptions) {
	c, _ := scope.ClusterFrom(ctx)
	s.clusters = append(s.clusters, c)
	s.options = append(s.options, o)
}

func (s *server) List(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(ctx, o)
	s.lists++
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, cm := range s.objects {
		list.Items = append(list.Items, *cm.DeepCopy())
	}
	return list, nil
}

func (s *server) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(ctx, o)
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("streaming lists merge equal names")
	}
	w := watch.NewRaceFreeFake()
	s.watchers = append(s.watchers, w)
	return w, nil
}

// put stores an object and tells the watchers.
func (s *server) put(cm *corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(cm)
	for _, w := range s.watchers {
		w.Modify(cm.DeepCopy())
	}
}

// putUnseen stores an object while nobody watches.
func (s *server) putUnseen(cm *corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(cm)
}

func (s *server) store(cm *corev1.ConfigMap) {
	s.version++
	cm.ResourceVersion = strconv.Itoa(s.version)
	s.objects[controller.RequestFor(cm)] = cm
}

func (s *server) remove(r controller.Request, seen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	cm := s.objects[r]
	delete(s.objects, r)
	for _, w := range s.watchers {
		if seen {
			w.Delete(cm.DeepCopy())
		}
	}
}

// expire ends all watches so that a list must follow.
func (s *server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		w.Stop()
	}
	s.watchers = nil
}

func (s *server) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers) > 0
}

func object(cluster logicalcluster.Name, namespace, name string, uid types.UID) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: uid,
			Annotations:   map[string]string{logicalcluster.AnnotationKey: cluster.String()},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test"}},
		},
		Data: map[string]string{"in": cluster.String()},
	}
}

func at(cluster logicalcluster.Name, namespace, name string) controller.Request {
	return controller.Request{Cluster: cluster, Namespace: namespace, Name: name}
}

type informer = controller.Informer[*corev1.ConfigMap]

// start runs an informer over s until the test ends, and waits for its watch.
func start(t *testing.T, s *server, o controller.InformerOptions[*corev1.ConfigMap]) *informer {
	t.Helper()
	i := controller.NewInformer("test", &corev1.ConfigMap{}, controller.Lists(s), o)
	run(t, i.Run)
	if err := i.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the informer watches", s.watched)
	return i
}

// run calls f until the test ends.
func run(t *testing.T, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// log records what a handler was told.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) handle(old, cm *corev1.ConfigMap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case old == nil:
		l.lines = append(l.lines, fmt.Sprintf("add %s %s", controller.RequestFor(cm), cm.UID))
	case cm == nil:
		l.lines = append(l.lines, fmt.Sprintf("delete %s %s", controller.RequestFor(old), old.UID))
	default:
		l.lines = append(l.lines, fmt.Sprintf("update %s %s", controller.RequestFor(cm), cm.UID))
	}
}

// take returns the lines so far and forgets them.
func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *log) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}
