package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

// line is how one process reaches one server. It is what the real shells get as
// the Transport of their rest.Config.
type line struct {
	world *World
	// name is different for each line, by is who writes.
	name, by string
	// target is set for the line of a syncer to the control plane.
	target string
	// syncer is set for both lines of a syncer.
	syncer *syncerProcess
	// to finds the server that answers; nil: it cannot be reached.
	to func() *front

	mu   sync.Mutex
	dead chan struct{} // closed when the process has died
	// cut lets nothing through.
	cut bool
	// routeless has whoever is before the server answer that there is nothing.
	routeless bool
	// leaseless loses what is said about Leases.
	leaseless bool
	// short is the resource of which lists come back short: without any objects, or
	// without some if shortKeeps; shortFor says that it is about metadata.
	short                string
	shortKeeps, shortFor bool
	// lacking are the lists that came back short, and were not repeated since.
	lacking map[string]bool
}

func newLine(w *World, name, by string, to func() *front) *line {
	return &line{world: w, name: name, by: by, to: to, dead: make(chan struct{}), lacking: map[string]bool{}}
}

// die drops the line: nothing that is asked from now on is sent. What was sent
// before may still arrive.
func (l *line) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isDead() {
		close(l.dead)
	}
}

func (l *line) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// errUnreachable is what a client sees of a server that is not there.
var errUnreachable = errors.New("no answer")

// call is a request on its way.
type call struct {
	line *line
	req  *request
	ctx  context.Context
	key  string
	seq  int
	done chan answer
	// commit is set for a write to the database by a server: it is decided when it
	// arrives there.
	commit func() answer
	// client is the call for which that is.
	client *call
	// due is when a silent line makes it fail, reply what to deliver once it was
	// executed.
	reply *answer
}

type answer struct {
	response *http.Response
	err      error
}

// network holds what is under way. The shells' goroutines add to it; only the
// scheduler takes from it, while all others wait.
type network struct {
	mu      sync.Mutex
	arrived []*call
	replied []*call
	wake    chan struct{}
	seq     int
}

func (n *network) add(c *call) {
	n.mu.Lock()
	n.arrived = append(n.arrived, c)
	n.mu.Unlock()
	n.nudge()
}

func (n *network) nudge() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// RoundTrip implements http.RoundTripper: the request waits until the scheduler
// picks it.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.isDead() {
		return nil, errUnreachable
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	req, err := parse(r, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	c := &call{line: l, req: req, ctx: r.Context(), done: make(chan answer, 1)}
	l.world.net.add(c)
	return c.wait()
}

func (c *call) wait() (*http.Response, error) {
	select {
	case a := <-c.done:
		return a.response, a.err
	case <-c.ctx.Done():
		if c.line.isDead() { // a crash ends both, and worlds have to be repeatable
			return nil, errUnreachable
		}
		return nil, c.ctx.Err()
	case <-c.line.dead:
		return nil, errUnreachable
	}
}

// abandoned says that nobody waits for the answer.
func (c *call) abandoned() bool { return c.ctx.Err() != nil || c.line.isDead() }

// deliver gives the client its answer.
func (c *call) deliver(a answer) {
	if !c.abandoned() {
		c.done <- a
	}
}

// collect takes what came in since the last time, in an order that does not depend
// on which goroutine ran first.
// Answers that came are delivered, one after the other.
func (w *World) collect() {
	for w.collectOnce() {
		w.wait()
	}
}

func (w *World) collectOnce() (delivered bool) {
	w.net.mu.Lock()
	arrived, replied := w.net.arrived, w.net.replied
	w.net.arrived, w.net.replied = nil, nil
	w.net.mu.Unlock()
	slices.SortStableFunc(arrived, func(a, b *call) int { return cmp.Compare(a.order(), b.order()) })
	for _, c := range arrived {
		w.net.seq++
		c.seq = w.net.seq
	}
	w.waiting = append(w.waiting, arrived...)
	slices.SortStableFunc(replied, func(a, b *call) int { return cmp.Compare(a.seq, b.seq) })
	for _, c := range replied {
		w.wait()
		delivered = true
		if w.troubled && w.rng.IntN(6) == 0 {
			w.replies = append(w.replies, c) // takes its time
			continue
		}
		w.finish(c)
	}
	return delivered
}

// finish delivers the answer of a call.
func (w *World) finish(c *call) {
	if c.line.cut {
		c.deliver(answer{err: errUnreachable})
		return
	}
	if w.troubled && c.commit == nil && c.line.by != system && w.rng.IntN(80) == 0 {
		w.say("%s: the answer is lost", c)
		c.deliver(answer{err: errUnreachable})
		return
	}
	c.deliver(*c.reply)
}

// String is for transcripts.
func (c *call) String() string {
	if c.commit != nil {
		return c.line.name + " database " + c.client.line.name + " " + c.client.req.String()
	}
	return c.line.name + " " + c.req.String()
}

// order is what calls that came at once are sorted by.
func (c *call) order() string {
	if c.key == "" {
		c.key = c.String()
		if c.req != nil {
			c.key += " " + c.req.agent + " " + string(c.req.body)
		}
	}
	return c.key
}

// arrives lets a call get to its server.
func (w *World) arrive(c *call) {
	switch {
	case c.abandoned():
		// It was sent before: it may still get there, or not.
		if c.commit == nil && (c.req.reads() || w.rng.IntN(2) == 0) {
			return
		}
		w.say("late: %s", c)
	case c.commit != nil:
	case c.line.cut, c.line.to() == nil, c.line.leaseless && c.req.res != nil && c.req.res.Resource == "leases":
		c.deliver(answer{err: errUnreachable})
		return
	case c.line.routeless:
		w.say("%s: no route", c)
		c.deliver(w.bugs.paged(c))
		return
	case w.troubled && c.line.by != system && w.rng.IntN(80) == 0:
		w.say("%s: lost", c)
		c.deliver(answer{err: errUnreachable})
		return
	}
	if c.commit != nil {
		a := c.commit()
		c.deliver(a)
		return
	}
	f := c.line.to()
	if f == nil {
		return
	}
	if w.bugs.alter != nil {
		w.bugs.alter(c)
	}
	if w.bugs.answers != nil {
		if a, done := w.bugs.answers(c); done {
			w.reply(c, a)
			return
		}
	}
	if f.server == nil || c.req.reads() {
		a := f.execute(c)
		w.say("%s -> %s", c, a)
		w.reply(c, a)
		return
	}
	f.server.running.Go(func() {
		a := f.server.serve(c)
		w.say("%s -> %s", c, a)
		w.reply(c, a)
	})
}

// reply notes the answer to a call.
func (w *World) reply(c *call, a answer) {
	c.reply = &a
	w.net.mu.Lock()
	w.net.replied = append(w.net.replied, c)
	w.net.mu.Unlock()
	w.net.nudge()
}

// String is an answer in transcripts.
func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	if a.response == nil {
		return "done"
	}
	return a.response.Header.Get("X-Summary")
}
