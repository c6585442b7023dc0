package simulation

import (
	"slices"
	"time"

	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// queue has the controllers of a physical cluster look at objects, one at a time.
type queue struct {
	world     *World
	name      string
	reconcile func(kube.Key) (time.Duration, error)
	waiting   []kube.Key
	failures  map[kube.Key]int
	due       map[kube.Key]time.Time
	stopped   bool
}

func newQueue(w *World, name string, reconcile func(kube.Key) (time.Duration, error)) *queue {
	return &queue{world: w, name: name, reconcile: reconcile, failures: map[kube.Key]int{}, due: map[kube.Key]time.Time{}}
}

func (q *queue) add(key kube.Key) {
	if !q.stopped && !slices.Contains(q.waiting, key) {
		q.waiting = append(q.waiting, key)
	}
}

// addAfter adds a key later; of several times the first one counts.
func (q *queue) addAfter(key kube.Key, d time.Duration) {
	at := q.world.now().Add(d)
	if due, ok := q.due[key]; ok && !due.After(at) {
		return
	}
	q.due[key] = at
	q.world.after(d, func() {
		if q.due[key].Equal(at) {
			delete(q.due, key)
			q.add(key)
		}
	})
}

func (q *queue) ready() bool { return len(q.waiting) > 0 }

// step looks at one object.
func (q *queue) step() {
	if !q.ready() {
		return
	}
	key := q.waiting[0]
	q.waiting = q.waiting[1:]
	after, err := q.reconcile(key)
	switch {
	case err != nil:
		q.world.say("%s: %v: %v", q.name, key, err)
		q.failures[key]++
		q.addAfter(key, min(5*time.Millisecond<<min(q.failures[key], 20), 30*time.Second))
	case after > 0:
		delete(q.failures, key)
		q.addAfter(key, after)
	default:
		delete(q.failures, key)
	}
}

func (q *queue) stop() { q.stopped, q.waiting = true, nil }
