package controller

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
)

const (
	// missingTTL is how long a write is believed against an informer that does not
	// have the object, if nobody knows how far it is: either the informer is late, or the
	// object is gone again.
	missingTTL = 5 * time.Second
	// olderTTL is how long it is believed against one that has an older version: a
	// server that went back may never give it a newer one.
	olderTTL = 30 * time.Second
	// maxWritten bounds the writes that are remembered at a time; an informer lags by
	// hundreds of them at the most. To forget one costs a conflict and a retry.
	maxWritten = 4096
)

// Written remembers the answers to own writes until an informer has them, so that a
// decision never rests on less than is known: read your own writes. What is known of
// an object is
//
//	informer         written              then
//	any              nothing              what the informer has
//	not older        any version          what the informer has, and the write is forgotten
//	no like version  any version          what the informer has, and the write is forgotten
//	older, nothing   not Reached          what was written, however long ago: a watch may be cut
//	                                        for minutes, and then go on
//	older, nothing   Reached              what the informer has, and the write is forgotten
//	the same object  "gone", 30 s ago     nothing: the server was asked later than the informer
//	                   at the most
//	anything else    "gone"               what the informer has
//
// Where nobody says what is Reached, and for versions that are no numbers, a write is believed for 30 s against an older version,
// and for 5 s against nothing.
//
// Versions are alike if they are those of one resource on one server, and numbers: the
// caller sees to the first by having one Written for each informer and dropping it when
// the server goes back in time. It is a cache of one process: to lose it costs a request
// that meets a conflict, never a wrong decision.
type Written[K comparable, T metav1.Object] struct {
	// OnPut, if not nil, is called with each answer.
	OnPut func(T)
	// Reached says that the informer has all that happened to an object up to a version,
	// and Informed is what it has. Default: time decides.
	Reached  func(key K, version string) bool
	Informed func(key K) (T, bool)

	mu      sync.Mutex
	answers *lru.Cache // of answer[T] by K
}

// answer is what a server said to a write.
type answer[T metav1.Object] struct {
	obj T
	at  time.Time
	// gone, if not empty, is the UID of the object of which the server said that it does
	// not exist; there is no obj then.
	gone types.UID
}

func (a answer[T]) uid() types.UID {
	if a.gone != "" {
		return a.gone
	}
	return a.obj.GetUID()
}

// NewWritten makes a memory of own writes.
func NewWritten[K comparable, T metav1.Object]() *Written[K, T] {
	return &Written[K, T]{answers: lru.New(maxWritten)}
}

// Put remembers the answer to a write.
func (w *Written[K, T]) Put(key K, obj T) {
	if w.OnPut != nil {
		w.OnPut(obj)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers.Add(key, answer[T]{obj: obj, at: time.Now()})
}

// Gone remembers that the server said that the object with uid does not exist: an
// informer that is late has it, perhaps as it was before own writes.
func (w *Written[K, T]) Gone(key K, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers.Add(key, answer[T]{gone: uid, at: time.Now()})
}

// Newest is the newer of what the informer has and what was written.
func (w *Written[K, T]) Newest(key K, informed T, found bool) (T, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.get(key)
	if !ok {
		return informed, found
	}
	age := time.Since(a.at)
	if a.gone != "" {
		if found && informed.GetUID() == a.gone && age <= olderTTL {
			return *new(T), false
		}
		return informed, found
	}
	if found && asNew(informed, a.obj) {
		w.answers.Remove(key)
		return informed, found
	}
	if !w.passed(key, a, found) {
		return a.obj, true
	}
	w.answers.Remove(key)
	if w.Informed != nil { // the informer was read before it got there, perhaps
		return w.Informed(key)
	}
	return informed, found
}

// passed says that an informer which does not show a write will not do so any more.
func (w *Written[K, T]) passed(key K, a answer[T], found bool) bool {
	version := a.obj.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err == nil && w.Reached != nil {
		return w.Reached(key, version)
	}
	age := time.Since(a.at)
	return age > olderTTL || !found && age > missingTTL
}

// Arrived notes that the informer has obj, and says whether that is an own write that
// comes back.
func (w *Written[K, T]) Arrived(key K, obj metav1.Object) (own bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.get(key)
	if !ok || a.gone != "" {
		return false
	}
	if asNew(obj, a.obj) {
		w.answers.Remove(key)
	}
	return a.obj.GetResourceVersion() == obj.GetResourceVersion()
}

// Version is that of the last write that has not come back; empty if there is none, or
// if it should have come back long ago.
func (w *Written[K, T]) Version(key K) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.get(key); ok && a.gone == "" && !w.passed(key, a, true) {
		return a.obj.GetResourceVersion()
	}
	return ""
}

// Outstanding says how long to wait before key is looked at again: an informer whose
// watch was cut may never show an own write that was undone meanwhile, and then nothing
// else would make anybody look. Zero if all own writes have come back.
func (w *Written[K, T]) Outstanding(key K) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.get(key)
	if !ok {
		return 0
	}
	if a.gone != "" && time.Since(a.at) > olderTTL {
		w.answers.Remove(key)
		return 0
	}
	return missingTTL + time.Second
}

// Forget drops what was written or answered under key if it is about the object with uid.
func (w *Written[K, T]) Forget(key K, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.get(key); ok && a.uid() == uid {
		w.answers.Remove(key)
	}
}

// Len is the number of writes that are remembered.
func (w *Written[K, T]) Len() int { return w.answers.Len() }

// get finds an answer; the lock is held.
func (w *Written[K, T]) get(key K) (answer[T], bool) {
	found, ok := w.answers.Get(key)
	if !ok {
		return answer[T]{}, false
	}
	return found.(answer[T]), true
}

// asNew says that what an informer has is as new as what was written. Versions that
// are not alike are no reason to doubt the informer.
func asNew(informed, written metav1.Object) bool {
	c, err := resourceversion.CompareResourceVersion(informed.GetResourceVersion(), written.GetResourceVersion())
	return err != nil || c >= 0
}
