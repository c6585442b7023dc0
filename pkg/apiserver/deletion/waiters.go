package deletion

import (
	"sync"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// maxWaiting is how many answers wait at a time, maxWaitingInCluster how many of
	// them in one logical cluster. Any more are given at once.
	maxWaiting          = 1024
	maxWaitingInCluster = 128
)

// place is where an object is.
type place struct {
	cluster   logicalcluster.Name
	resource  schema.GroupResource
	namespace string
}

// waiters are notified by informers when objects are gone or released.
type waiters struct {
	mu sync.Mutex
	// followed says that informers notify.
	followed bool
	all      int
	any      atomic.Bool // all is not zero
	cluster  map[logicalcluster.Name]int
	at       map[place]map[*waiter]struct{}
}

func newWaiters() *waiters {
	return &waiters{cluster: map[logicalcluster.Name]int{}, at: map[place]map[*waiter]struct{}{}}
}

// add makes a waiter; nil if there are too many, or nobody to notify it.
func (s *waiters) add(p place) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.followed || s.all >= maxWaiting || s.cluster[p.cluster] >= maxWaitingInCluster {
		return nil
	}
	s.all++
	s.any.Store(true)
	s.cluster[p.cluster]++
	if s.at[p] == nil {
		s.at[p] = map[*waiter]struct{}{}
	}
	w := &waiter{released: map[types.UID]uint64{}, done: make(chan struct{})}
	s.at[p][w] = struct{}{}
	return w
}

func (s *waiters) remove(p place, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	s.any.Store(s.all > 0)
	if s.cluster[p.cluster]--; s.cluster[p.cluster] == 0 {
		delete(s.cluster, p.cluster)
	}
	if delete(s.at[p], w); len(s.at[p]) == 0 {
		delete(s.at, p)
	}
}

// follow has the informers of all that may have copies notify the waiters.
func (s *waiters) follow(kinds workload.Source, objects *controller.Metadata) {
	// Of kinds that come later nobody waits yet for what is there.
	placed.Follow(kinds, objects, func(kind workload.Kind, old, new *metav1.PartialObjectMetadata) {
		if kind.Role != workload.Container {
			s.changed(kind.GroupResource(), old, new)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed = true
}

// changed notifies those who wait where an object has changed.
func (s *waiters) changed(resource schema.GroupResource, old, new *metav1.PartialObjectMetadata) {
	if !s.any.Load() {
		return // who comes later looks first, and sees this change
	}
	obj, version := new, gone
	if new == nil {
		obj = old
	} else if held(new) {
		return
	} else {
		version = versionOf(new)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.at[place{logicalcluster.From(obj), resource, obj.Namespace}] {
		w.release(obj.UID, version)
	}
}

// gone is later than any version.
const gone = ^uint64(0)

func versionOf(obj runtime.Object) uint64 {
	version, err := storage.APIObjectVersioner{}.ObjectResourceVersion(obj)
	if err != nil {
		return 0
	}
	return version
}

// waiter is one answer that waits. What informers say before it is known what to wait
// for counts, too: nothing is missed, and nothing is asked twice.
type waiter struct {
	mu sync.Mutex
	// released are the objects that were seen without our hold, and when.
	released map[types.UID]uint64
	// left are those to wait for, with the versions in which we held them; nil until
	// they are known.
	left map[types.UID]uint64
	done chan struct{}
}

// release notes that nothing of ours holds an object from a version on.
func (w *waiter) release(uid types.UID, version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == nil {
		w.released[uid] = version
		return
	}
	if at, waits := w.left[uid]; waits && version > at {
		if delete(w.left, uid); len(w.left) == 0 {
			close(w.done)
		}
	}
}

// await says what to wait for; done is closed when that is over.
func (w *waiter) await(objects []metav1.PartialObjectMetadata) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = map[types.UID]uint64{}
	for i := range objects {
		obj := &objects[i]
		if version := versionOf(obj); held(obj) && w.released[obj.UID] <= version {
			w.left[obj.UID] = version
		}
	}
	w.released = nil
	if len(w.left) == 0 {
		close(w.done)
	}
}
