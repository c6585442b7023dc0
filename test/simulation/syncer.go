package simulation

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/syncer/agent"
)

// syncerProcess is one process of the real agent.
type syncerProcess struct {
	name     string
	physical *physical
	up, down *line
	stop     context.CancelFunc
	done     chan struct{}
}

// startSyncer starts a syncer for a physical cluster, perhaps beside another one.
func (p *physical) startSyncer() {
	if p.dead || !p.registered {
		return
	}
	w := p.world
	p.started++
	s := &syncerProcess{name: fmt.Sprintf("%s.%d", p.name, p.started), physical: p, done: make(chan struct{})}
	s.up = newLine(w, s.name+" up", syncerOf(p.name), w.frontFor(p.started))
	s.up.target, s.up.syncer = p.name, s
	behind := p.behind // what it sends goes there, though others get other credentials later
	s.down = newLine(w, s.name+" down", syncerOf(p.name), func() *front { return behind })
	s.down.syncer = s
	s.up.cut, s.down.cut, s.up.routeless = p.upCut, p.downCut, p.routeless
	a, err := agent.New(agent.Config{
		PhysicalCluster: p.name, Upstream: config(s.up, ""), Physical: config(s.down, ""), Kinds: kinds,
		Identify: func(string, string) (string, func()) { return s.name, func() {} },
		Plan:     w.bugs.Plan(w), Place: w.bugs.place,
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(klog.NewContext(w.ctx, logr.Discard()))
	s.stop = stop
	p.syncers = append(p.syncers, s)
	go func() {
		defer close(s.done)
		if err := a.Run(ctx); err != nil {
			w.say("%s: %v", s.name, err)
		}
	}()
}

// frontFor is the server of the control plane that a client talks to: the same one
// as long as it lives.
func (w *World) frontFor(n int) func() *front {
	return func() *front {
		if len(w.servers) == 0 {
			return nil
		}
		return w.servers[n%len(w.servers)].front
	}
}

// crash kills a syncer between any two requests.
func (s *syncerProcess) crash() {
	s.up.die()
	s.down.die()
	s.end()
}

// leave ends a syncer in the proper way: it gives its Lease back.
func (s *syncerProcess) end() {
	s.stop()
	p := s.physical
	for i, other := range p.syncers {
		if other == s {
			p.syncers = append(p.syncers[:i:i], p.syncers[i+1:]...)
			break
		}
	}
	p.world.wait()
	for _, t := range p.world.streams {
		if t.line.syncer == s {
			t.end(errUnreachable)
		}
	}
}

// cutLine stops, or resumes, what goes over a line. Watches end.
func (w *World) cutLine(l *line, cut bool) {
	l.cut = cut
	if cut {
		w.endStreams(l)
	}
}

// endStreams ends what is watched over a line.
func (w *World) endStreams(l *line) {
	for _, t := range w.streams {
		if t.line == l {
			t.end(errUnreachable)
			w.wait()
		}
	}
}
