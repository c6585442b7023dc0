package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// How a Server is watched over, by default.
const (
	// heartbeatInterval is how often one of the informers asks for the newest
	// resource version.
	heartbeatInterval = 10 * time.Second
	// compareInterval is how often each informer is compared with a real list.
	compareInterval = 5 * time.Minute
	// compareGrace is how long a difference may be a watch that is late.
	compareGrace = 10 * time.Second
)

// ServerOptions are the choices that a Server offers; the zero value is good.
type ServerOptions struct {
	// Heartbeat is how often one of the informers, each in turn, asks for the newest
	// resource version; default 10 s.
	Heartbeat time.Duration
	// Compare is how often each informer is compared with a list of metadata;
	// default 5 min.
	Compare time.Duration
	// Grace is how long a difference must last before it counts; default 10 s.
	Grace time.Duration
}

// Server is one API server as the informers over it see it. It notices that the
// server went back in time, as after a backup was restored, and finds what no watch
// told. A reflector notices neither: it resumes its watch at the last resource
// version that it knows, and the server drops every event up to that version.
//
//	noticed by                                          it means
//	newest resource version < highest one seen          the server went back
//	an object's version < the one that we hold of it,   the server went back, and its
//	  in a list that is as new as that                  versions caught up
//	missing, extra or different in two lists,           an event was lost
//	  while what we hold did not change
//
// Whoever went back is not believed: all its informers list again, from the state
// itself and not from a version, and whoever asked by OnWentBack ends what rests on
// the past. An event that was lost makes only that informer list again.
//
// Resource versions are compared within one resource of one server only, and only
// until it went back. A nil Server watches over nothing.
type Server struct {
	name    string
	options ServerOptions

	// resetting is held while all is made to be read anew.
	resetting sync.Mutex

	mu        sync.Mutex
	members   []member
	listeners []*func()
	// doubted are members to be compared at once.
	doubted []member
	wake    chan struct{}
	// next and compared are where the rounds of heartbeats and comparisons are.
	next, compared int
}

// member is an informer, whatever it holds.
type member interface {
	Name() string
	// probe fails if the server cannot be asked; went says that it went back.
	probe(ctx context.Context) (went *regress, err error)
	// differences compares with a list of metadata; only, if not nil, are those of
	// interest.
	differences(ctx context.Context, only differences) (found differences, went *regress, err error)
	// relist lists again.
	relist()
	// anew says whether that happened since the evidence was found.
	anew(since regress) bool
	// forget: what was seen so far is no measure any more.
	forget()
}

// regress is the evidence that a server went back: the version that it had and the
// one that it has. past says how often it had gone back before.
type regress struct {
	had, has string
	past     int
}

// NewServer makes a Server; name appears in logs.
func NewServer(name string, o ServerOptions) *Server {
	if o.Heartbeat == 0 {
		o.Heartbeat = heartbeatInterval
	}
	if o.Compare == 0 {
		o.Compare = compareInterval
	}
	if o.Grace == 0 {
		o.Grace = compareGrace
	}
	registerMetrics()
	return &Server{name: name, options: o, wake: make(chan struct{}, 1)}
}

// OnWentBack calls f whenever the server went back, until remove is called. f must
// only take note: it is called under locks of informers.
func (s *Server) OnWentBack(f func()) (remove func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &f
	s.listeners = append(s.listeners, l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listeners = slices.DeleteFunc(s.listeners, func(other *func()) bool { return other == l })
	}
}

// Run watches over the server until ctx is done. Informers come and go meanwhile;
// ctx names the scope of their requests as it does for them.
func (s *Server) Run(ctx context.Context) {
	if s == nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.heartbeats(ctx) })
	running.Go(func() { s.comparisons(ctx) })
}

func (s *Server) heartbeats(ctx context.Context) {
	for pause(ctx, wait.Jitter(s.options.Heartbeat, 0.2)) {
		m := s.roundRobin(&s.next)
		if m == nil {
			continue
		}
		went, err := m.probe(ctx)
		if err != nil {
			klog.FromContext(ctx).V(3).Info("Could not ask for the newest resource version", "server", s.name, "informer", m.Name(), "err", err)
		}
		if went != nil {
			s.wentBack(ctx, m, *went)
		}
	}
}

// comparisons compares one informer after the other, spread over the interval, and
// at once those that are doubted.
func (s *Server) comparisons(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(wait.Jitter(s.options.Compare/time.Duration(max(1, s.count())), 0.2))
		select {
		case <-ctx.Done():
		case <-timer.C:
			if m := s.roundRobin(&s.compared); m != nil {
				s.compare(ctx, m)
			}
		case <-s.wake:
			s.compare(ctx, s.doubts()...)
			pause(ctx, s.options.Grace) // doubts may come as often as they like
		}
		timer.Stop()
	}
}

// compare looks twice: what is different both times, while we learned nothing of it
// in between, no watch will tell.
func (s *Server) compare(ctx context.Context, members ...member) {
	first := make(map[member]differences, len(members))
	for _, m := range members {
		if found := s.look(ctx, m, nil); len(found) > 0 {
			first[m] = found
		}
	}
	if len(first) == 0 || !pause(ctx, s.options.Grace) {
		return
	}
	for m, found := range first {
		lost := s.look(ctx, m, found)
		if len(lost) == 0 {
			continue
		}
		counts := lost.count()
		klog.FromContext(ctx).Info("The watch missed changes, listing again", "server", s.name, "informer", m.Name(),
			"missing", counts[missing], "extra", counts[extra], "different", counts[different], "example", lost.example())
		for kind, n := range counts {
			missedChanges.WithLabelValues(string(kind)).Add(float64(n))
		}
		m.relist()
	}
}

// look compares once; a list may also show that the server went back.
func (s *Server) look(ctx context.Context, m member, only differences) differences {
	found, went, err := m.differences(ctx, only)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(3).Info("Comparing with a list failed, will do so again", "server", s.name, "informer", m.Name(), "err", err)
	}
	if went != nil {
		s.wentBack(ctx, m, *went)
	}
	return found
}

// wentBack makes everybody read anew; m is the one who found out. Only m itself does
// so without a Server.
func (s *Server) wentBack(ctx context.Context, m member, r regress) {
	name, members, listeners := "", []member{m}, []*func(){}
	if s != nil {
		s.resetting.Lock()
		defer s.resetting.Unlock()
		s.mu.Lock()
		name, listeners = s.name, slices.Clone(s.listeners)
		if slices.Contains(s.members, m) {
			members = slices.Clone(s.members)
		}
		s.mu.Unlock()
	}
	if m.anew(r) {
		return // another one found out, too
	}
	klog.FromContext(ctx).Info("The server went back in time, as if a backup had been restored: reading everything anew",
		"server", name, "informer", m.Name(), "seen", r.had, "now", r.has)
	wentBackTotal.Inc()
	for _, f := range listeners {
		(*f)()
	}
	for _, m := range members {
		m.forget()
		m.relist()
	}
}

// doubt has m compared soon.
func (s *Server) doubt(m member) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.doubted, m) {
		s.doubted = append(s.doubted, m)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Server) doubts() []member {
	s.mu.Lock()
	defer s.mu.Unlock()
	doubted := s.doubted
	s.doubted = nil
	return doubted
}

func (s *Server) join(m member) (leave func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// By name: informers that run at once join in any order.
	at, _ := slices.BinarySearchFunc(s.members, m, func(a, b member) int { return strings.Compare(a.Name(), b.Name()) })
	s.members = slices.Insert(s.members, at, m)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		is := func(other member) bool { return other == m }
		s.members = slices.DeleteFunc(s.members, is)
		s.doubted = slices.DeleteFunc(s.doubted, is)
	}
}

func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// roundRobin is the next member of a round, nil if there is none.
func (s *Server) roundRobin(at *int) member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.members) == 0 {
		return nil
	}
	*at = (*at + 1) % len(s.members)
	return s.members[*at]
}

// older says that resource version a is older than b. Versions that cannot be
// compared, as of servers that do not count, are not.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// pause waits, and says whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
