package simulation

import (
	"iter"
	"slices"
	"time"
)

// task is work of several steps. Between two of them anything may happen, also
// that the task is stopped and never goes on.
type task struct {
	next func() (struct{}, bool)
	stop func()
}

type stopped struct{}

// newTask makes a task of a function that calls pause before each step.
func newTask(body func(pause func())) *task {
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != (stopped{}) {
				panic(r)
			}
		}()
		body(func() {
			if !yield(struct{}{}) {
				panic(stopped{})
			}
		})
	})
	return &task{next: next, stop: stop}
}

// step goes on to the next pause and reports whether there was one.
func (t *task) step() bool {
	_, more := t.next()
	return more
}

// queue is the queue loop of a controller: a key is worked on by one worker at a
// time; what fails is tried again, later and later.
type queue[K comparable] struct {
	world     *World
	name      string
	workers   int
	reconcile func(key K, pause func()) (time.Duration, error)

	waiting  []K
	running  []*job[K]
	again    map[K]bool
	failures map[K]int
	due      map[K]time.Time
	dead     bool
}

type job[K comparable] struct {
	*task
	key   K
	after time.Duration
	err   error
}

func newQueue[K comparable](w *World, name string, workers int, reconcile func(K, func()) (time.Duration, error)) *queue[K] {
	return &queue[K]{world: w, name: name, workers: workers, reconcile: reconcile, again: map[K]bool{}, failures: map[K]int{}, due: map[K]time.Time{}}
}

func (q *queue[K]) add(key K) {
	switch {
	case q.dead || slices.Contains(q.waiting, key):
	case slices.ContainsFunc(q.running, func(j *job[K]) bool { return j.key == key }):
		q.again[key] = true
	default:
		q.waiting = append(q.waiting, key)
	}
}

// addAfter adds a key later; of several times the first one counts.
func (q *queue[K]) addAfter(key K, d time.Duration) {
	at := q.world.now.Add(d)
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

func (q *queue[K]) ready() bool { return len(q.running) > 0 || len(q.waiting) > 0 }

// step starts something that waits or goes on with something that runs.
func (q *queue[K]) step() {
	if !q.ready() {
		return // stopped a moment ago
	}
	i := q.world.rng.IntN(len(q.running) + 1)
	if len(q.waiting) > 0 && len(q.running) < q.workers && (i == len(q.running)) || len(q.running) == 0 {
		q.start()
		i = len(q.running) - 1
	}
	j := q.running[i%len(q.running)]
	if !j.step() {
		q.finish(j)
	}
}

func (q *queue[K]) start() {
	j := &job[K]{key: q.waiting[0]}
	q.waiting = q.waiting[1:]
	j.task = newTask(func(pause func()) { j.after, j.err = q.reconcile(j.key, pause) })
	q.running = append(q.running, j)
}

func (q *queue[K]) finish(j *job[K]) {
	q.running = slices.DeleteFunc(q.running, func(other *job[K]) bool { return other == j })
	switch {
	case j.err != nil:
		q.world.say("%s: %v: %v", q.name, j.key, j.err)
		q.failures[j.key]++
		q.addAfter(j.key, backoff(5*time.Millisecond, 30*time.Second, q.failures[j.key]))
	case j.after > 0:
		delete(q.failures, j.key)
		q.addAfter(j.key, j.after)
	default:
		delete(q.failures, j.key)
	}
	if q.again[j.key] {
		delete(q.again, j.key)
		q.add(j.key)
	}
}

// stop ends everything at once, as a crash does.
func (q *queue[K]) stop() {
	q.dead = true
	for _, j := range q.running {
		j.stop()
	}
	q.running, q.waiting = nil, nil
}

// backoff doubles from first to last; n counts from 1.
func backoff(first, last time.Duration, n int) time.Duration {
	if n > 20 {
		return last
	}
	return min(first<<(n-1), last)
}
