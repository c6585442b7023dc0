package agent

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// recentTTL is how long a write is believed against an informer that does not
	// have the object: it is either late, or the object is gone again.
	recentTTL = 5 * time.Second
	// recentMax is how long it is believed against one that has an older version: a
	// server that went back may never give it a newer one.
	recentMax = 30 * time.Second
)

// recent remembers the replies to our own writes until the informer has them,
// so that a decision never rests on less than we know.
type recent[K comparable, T metav1.Object] struct {
	// wrote, if not nil, is called with each reply.
	wrote func(T)

	mu      sync.Mutex
	replies map[K]reply[T]
}

type reply[T metav1.Object] struct {
	obj T
	at  time.Time
}

func newRecent[K comparable, T metav1.Object]() *recent[K, T] {
	return &recent[K, T]{replies: map[K]reply[T]{}}
}

func (r *recent[K, T]) put(key K, obj T) {
	if r.wrote != nil {
		r.wrote(obj)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replies[key] = reply[T]{obj: obj, at: time.Now()}
}

// outstanding says how long to wait before key is looked at again: an informer
// whose watch was cut may never show a write of ours that was undone meanwhile, and
// then nothing else would make anybody look.
func (r *recent[K, T]) outstanding(key K) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.replies[key]; !ok {
		return 0
	}
	return recentTTL + time.Second
}

// forget drops what is known under key if it is the object with uid.
func (r *recent[K, T]) forget(key K, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.replies[key]; ok && e.obj.GetUID() == uid {
		delete(r.replies, key)
	}
}

// pick returns the newer of what the informer has and what was written.
func (r *recent[K, T]) pick(key K, informed T, found bool) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.replies[key]
	switch {
	case !ok:
		return informed, found
	case found && asNew(informed, e.obj), found && time.Since(e.at) > recentMax, !found && time.Since(e.at) > recentTTL:
		delete(r.replies, key)
		return informed, found
	}
	return e.obj, true
}

// arrived notes that the informer has obj, and says whether that is a write of
// ours that comes back.
func (r *recent[K, T]) arrived(key K, obj T) (own bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.replies[key]
	if !ok {
		return false
	}
	if asNew(obj, e.obj) {
		delete(r.replies, key)
	}
	return e.obj.GetResourceVersion() == obj.GetResourceVersion()
}

// asNew says that what an informer has is as new as what was written. Versions that
// cannot be compared are no reason to doubt the informer.
func asNew(informed, written metav1.Object) bool {
	c, err := resourceversion.CompareResourceVersion(informed.GetResourceVersion(), written.GetResourceVersion())
	return err != nil || c >= 0
}
