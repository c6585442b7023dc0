package controller_test

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// apiserver is a source of config maps that answers as a kube-apiserver does: a watch
// from a version of the future is served, and every event up to that version dropped.
type apiserver struct {
	mu      sync.Mutex
	state   state
	broken  error // is what metadata is answered with
	lacking error // is what complete lists are answered with
	log     []change
	watches []*versioned
	down    bool
	// lists counts complete lists, probes those of one object, refused the watches
	// that were asked for while it was down.
	lists, probes, refused int
}

type state struct {
	version int
	objects map[controller.Request]*corev1.ConfigMap
}

type change struct {
	version int
	event   watch.Event
}

// versioned is a watch of what comes after a version.
type versioned struct {
	*watch.RaceFreeFakeWatcher
	after int
}

func newAPIServer() *apiserver {
	return &apiserver{state: state{version: 1, objects: map[controller.Request]*corev1.ConfigMap{}}}
}

var errDown = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

func (s *apiserver) page(o metav1.ListOptions) ([]*corev1.ConfigMap, metav1.ListMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, metav1.ListMeta{}, errDown
	}
	if asked, _ := strconv.Atoi(o.ResourceVersion); asked > s.state.version {
		return nil, metav1.ListMeta{}, storage.NewTooLargeResourceVersionError(uint64(asked), uint64(s.state.version), 1)
	}
	if o.Limit == 1 {
		s.probes++
	}
	all := slices.SortedFunc(maps.Values(s.state.objects), func(a, b *corev1.ConfigMap) int {
		return slices.Compare([]byte(a.Name), []byte(b.Name))
	})
	m := metav1.ListMeta{ResourceVersion: strconv.Itoa(s.state.version)}
	from, _ := strconv.Atoi(o.Continue)
	all = all[min(from, len(all)):]
	if o.Limit > 0 && len(all) > int(o.Limit) {
		all = all[:o.Limit]
		m.Continue = strconv.Itoa(from + int(o.Limit))
	}
	return all, m, nil
}

func (s *apiserver) List(_ context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	s.mu.Lock()
	lacking := s.lacking
	s.mu.Unlock()
	if lacking != nil {
		return nil, lacking
	}
	items, m, err := s.page(o)
	if err != nil {
		return nil, err
	}
	if o.Limit != 1 && o.Continue == "" {
		s.mu.Lock()
		s.lists++
		s.mu.Unlock()
	}
	list := &corev1.ConfigMapList{ListMeta: m}
	for _, cm := range items {
		list.Items = append(list.Items, *cm.DeepCopy())
	}
	return list, nil
}

func (s *apiserver) Metadata(_ context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil {
		return nil, broken
	}
	o.Limit = min(o.Limit, 2) // in pages
	items, m, err := s.page(o)
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{ListMeta: m}
	for _, cm := range items {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: *cm.ObjectMeta.DeepCopy()})
	}
	return list, nil
}

func (s *apiserver) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		s.refused++
		return nil, errDown
	}
	after, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &versioned{RaceFreeFakeWatcher: watch.NewRaceFreeFake(), after: after}
	for _, c := range s.log {
		w.deliver(c)
	}
	s.watches = append(s.watches, w)
	return w, nil
}

func (w *versioned) deliver(c change) {
	if c.version > w.after {
		w.Action(c.event.Type, c.event.Object.DeepCopyObject())
	}
}

// put writes an object; watched says whether watches show it.
func (s *apiserver) put(cm *corev1.ConfigMap, watched bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.version++
	cm = cm.DeepCopy()
	cm.ResourceVersion = strconv.Itoa(s.state.version)
	s.state.objects[controller.RequestFor(cm)] = cm
	s.changed(change{s.state.version, watch.Event{Type: watch.Modified, Object: cm}}, watched)
	return cm.ResourceVersion
}

func (s *apiserver) remove(r controller.Request, watched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.version++
	cm := s.state.objects[r].DeepCopy()
	cm.ResourceVersion = strconv.Itoa(s.state.version)
	delete(s.state.objects, r)
	s.changed(change{s.state.version, watch.Event{Type: watch.Deleted, Object: cm}}, watched)
}

func (s *apiserver) changed(c change, watched bool) {
	if !watched {
		return
	}
	s.log = append(s.log, c)
	for _, w := range s.watches {
		w.deliver(c)
	}
}

func (s *apiserver) backup() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return state{s.state.version, maps.Clone(s.state.objects)}
}

// restore puts a backup back; cut says whether watches are cut.
func (s *apiserver) restore(to state, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state{to.version, maps.Clone(to.objects)}
	s.log = nil
	if cut {
		s.cut()
	}
}

func (s *apiserver) cut() {
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

// stop ends all watches, and nothing is answered until start.
func (s *apiserver) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	s.cut()
}

func (s *apiserver) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// content is "name uid version" of all objects.
func (s *apiserver) content() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return contentOf(slices.Collect(maps.Values(s.state.objects)))
}

func contentOf(objs []*corev1.ConfigMap) []string {
	out := []string{}
	for _, cm := range objs {
		out = append(out, cm.Name+" "+string(cm.UID)+" "+cm.ResourceVersion)
	}
	slices.Sort(out)
	return out
}

func (s *apiserver) counted(what *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *what
}

// never is longer than a test takes.
const never = time.Hour

// follow runs an informer over s, which server watches over, until the test ends.
func follow(t *testing.T, s *apiserver, server *controller.Server) *informer {
	t.Helper()
	i := controller.NewInformer("test", &corev1.ConfigMap{}, controller.Lists(s),
		controller.InformerOptions[*corev1.ConfigMap]{Server: server, Metadata: s.Metadata})
	watching := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.watches) }
	before := watching()
	run(t, i.Run)
	if err := i.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the informer watches", func() bool { return watching() > before })
	return i
}
