package simulation

import (
	"container/heap"
	"slices"
	"time"
)

// advance lets one thing happen: a request arrives, an answer, a change is seen, a
// controller of a physical cluster does something. If there is nothing, time passes
// until there is, at most limit.
func (w *World) advance(limit time.Duration) progress {
	w.wait()
	w.collect()
	w.fire()
	w.wait()
	w.collect()
	options := w.options(false)
	if len(options) == 0 {
		options = w.options(true)
	}
	if len(options) == 0 {
		return w.idle(limit)
	}
	w.steps.Add(1)
	o := options[w.rng.IntN(len(options))]
	if c := o.waiting; c != nil && c.commit == nil && c.req.reads() {
		w.progress++
	} else {
		w.progress += readsPerStep
	}
	w.take(o)
	if w.rng.IntN(3) == 0 {
		time.Sleep(time.Duration(1+w.rng.IntN(9)) * time.Millisecond)
	}
	return acted
}

// option is something that may happen next: a request arrives, an answer is delivered,
// a watch tells of a change, a controller of a physical cluster takes a step.
type option struct {
	waiting, replied *call
	stream           *stream
	controllers      *queue
}

// progress is what advance did.
type progress int

// idle lets time pass until somebody asks for something, or a timer is due.
func (w *World) idle(limit time.Duration) progress {
	until, due := limit, len(w.timers) > 0
	if due {
		next := max(0, w.timers[0].at.Sub(w.now()))
		until, due = min(until, next), next < limit
	}
	timer := time.NewTimer(until)
	defer timer.Stop()
	select {
	case <-w.net.wake:
		return woken
	case <-timer.C:
		if due {
			return woken
		}
		return quiet
	}
}

// options are in an order that depends on nothing but what happened. What is watched
// slowly comes now and then, or when nothing else happens (hurry).
func (w *World) options(hurry bool) []option {
	all := w.possible[:0]
	for _, c := range w.waiting {
		all = append(all, option{waiting: c})
	}
	for _, c := range w.replies {
		all = append(all, option{replied: c})
	}
	live := w.streams[:0]
	for _, s := range w.streams {
		if s.over() {
			continue
		}
		live = append(live, s)
		if !s.line.cut && s.pending() && (hurry || s.res.Resource != w.slow || w.rng.IntN(20) == 0) {
			all = append(all, option{stream: s})
		}
	}
	clear(w.streams[len(live):])
	w.streams = live
	for _, p := range w.clusters {
		if p.work.ready() {
			all = append(all, option{controllers: p.work})
		}
	}
	w.possible = all
	return all
}

func (w *World) take(o option) {
	is := func(c *call) func(*call) bool { return func(other *call) bool { return other == c } }
	switch {
	case o.waiting != nil:
		w.waiting = slices.DeleteFunc(w.waiting, is(o.waiting))
		w.arrive(o.waiting)
	case o.replied != nil:
		w.replies = slices.DeleteFunc(w.replies, is(o.replied))
		w.finish(o.replied)
	case o.stream != nil:
		o.stream.step()
	case o.controllers != nil:
		o.controllers.step()
	}
}

// timers is a heap, the next first.
type timers []timer

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || t[i].at.Equal(t[j].at) && t[i].seq < t[j].seq
}

func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// after calls f when d has passed, between two steps.
func (w *World) after(d time.Duration, f func()) {
	w.timed++
	heap.Push(&w.timers, timer{at: w.now().Add(d), seq: w.timed, f: f})
}

// fire calls what is due.
func (w *World) fire() {
	for len(w.timers) > 0 && !w.timers[0].at.After(w.now()) {
		heap.Pop(&w.timers).(timer).f()
		w.wait()
	}
}

const (
	// acted: something happened. woken: nothing was to be done, then somebody woke.
	// quiet: nobody did.
	acted progress = iota
	woken
	quiet
)

// timer calls something when its time has come.
type timer struct {
	at  time.Time
	seq int
	f   func()
}
