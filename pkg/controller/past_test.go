package controller_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
)

func thing(name string, uid types.UID) *corev1.ConfigMap { return object("", "default", name, uid) }

func known(name string) controller.Request { return at("", "default", name) }

// history makes a server whose backup is older than what the informers over it know:
// one object was changed since, one made and one deleted.
func history(t *testing.T, server *controller.Server) (s *apiserver, backup state, informers []*informer) {
	t.Helper()
	s = newAPIServer()
	for _, name := range []string{"changed", "deleted", "same"} {
		s.put(thing(name, types.UID(name)), true)
	}
	backup = s.backup()
	informers = []*informer{follow(t, s, server), follow(t, s, server)}
	s.put(thing("changed", "changed"), true)
	s.put(thing("made", "made"), true)
	s.remove(known("deleted"), true)
	for _, i := range informers {
		holds(t, i, s)
	}
	return s, backup, informers
}

func holds(t *testing.T, i *informer, s *apiserver) {
	t.Helper()
	want := s.content()
	eventually(t, "the informer has what the server has", func() bool { return slices.Equal(want, contentOf(i.List())) })
}

// counter counts how often a server went back.
func counter(t *testing.T, server *controller.Server) *atomic.Int32 {
	t.Helper()
	var n atomic.Int32
	t.Cleanup(server.OnWentBack(func() { n.Add(1) }))
	return &n
}

func TestAServerThatWentBackIsReadAnewByAllInformersAfterAReconnect(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: never})
	wentBack := counter(t, server)
	s, backup, informers := history(t, server)
	var l log
	informers[0].Handle(l.handle)
	l.take()

	s.restore(backup, true)
	for _, i := range informers {
		holds(t, i, s)
	}
	got := l.take()
	slices.Sort(got)
	want := []string{"add |default/deleted deleted", "delete |default/made made", "update |default/changed changed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the handler was called with (-want +got)\n%s", diff)
	}
	if n := wentBack.Load(); n != 1 {
		t.Errorf("it went back %d times", n)
	}
	s.put(thing("new", "new"), true) // of a version that both had seen before
	for _, i := range informers {
		holds(t, i, s)
	}
}

func TestAServerThatWentBackBehindAnOpenWatchIsNoticedByTheHeartbeat(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: 10 * time.Millisecond, Compare: never})
	wentBack := counter(t, server)
	s, backup, informers := history(t, server)
	run(t, server.Run)
	s.restore(backup, false)
	for _, i := range informers {
		holds(t, i, s)
	}
	if n := wentBack.Load(); n != 1 {
		t.Errorf("it went back %d times", n)
	}
}

func TestAServerThatDoesNotHaveWhatItAnsweredToAnOwnWriteWentBack(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: never})
	wentBack := counter(t, server)
	s, backup, informers := history(t, server)
	i := informers[0]
	backup.version = s.backup().version // as new as what the watches reported
	i.Wrote(s.put(thing("written", "written"), false))
	s.restore(backup, true)
	holds(t, i, s)
	if n := wentBack.Load(); n != 1 {
		t.Errorf("it went back %d times", n)
	}
}

func TestAServerThatCaughtUpWithItsVersionsIsFoundOutAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		since    func(*apiserver)
		wentBack int32
	}{
		// An older version of an object proves it at once.
		"with an older version of an object": {func(s *apiserver) {}, 1},
		"without one":                        {func(s *apiserver) { s.put(thing("changed", "changed"), true) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: never, Grace: 10 * time.Millisecond})
			wentBack := counter(t, server)
			s, backup, informers := history(t, server)
			run(t, server.Run)
			s.stop()
			s.restore(backup, true)
			for range 100 {
				s.put(thing("busy", "busy"), true)
			}
			c.since(s)
			eventually(t, "the informers notice that it is away", func() bool { return s.counted(&s.refused) > 3 })
			s.start()
			for _, i := range informers {
				holds(t, i, s)
			}
			if n := wentBack.Load(); n != c.wentBack {
				t.Errorf("it went back %d times, not %d", n, c.wentBack)
			}
		})
	}
}

func TestWhatAnInformerHasOfBeforeProvesNothingOnceMore(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: time.Millisecond, Grace: time.Millisecond})
	wentBack := counter(t, server)
	s, backup, informers := history(t, server)
	run(t, server.Run)
	s.mu.Lock()
	s.lacking = errDown // nothing can be read anew
	s.mu.Unlock()
	s.restore(backup, false)
	for range 100 { // it catches up with its versions
		s.put(thing("busy", "busy"), false)
	}
	eventually(t, "a comparison finds an older version", func() bool { return wentBack.Load() > 0 })
	// Listeners hear of it before the informer forgets how far it was.
	eventually(t, "what it has of before proves nothing", func() bool { return !informers[0].Reached("1") })
	time.Sleep(50 * time.Millisecond) // for more comparisons
	s.mu.Lock()
	s.lacking = nil
	s.mu.Unlock()
	for _, i := range informers {
		holds(t, i, s)
	}
	if n := wentBack.Load(); n != 1 {
		t.Errorf("it went back %d times", n)
	}
	if version := s.put(thing("new", "new"), true); !informers[0].Reached("1") {
		t.Errorf("it has read everything anew, and version %s came", version)
	}
}

func TestWhatNoWatchReportedIsFoundAndHealed(t *testing.T) {
	t.Parallel()
	for name, miss := range map[string]func(*apiserver){
		"missing":       func(s *apiserver) { s.put(thing("unheard", "unheard"), false) },
		"extra":         func(s *apiserver) { s.remove(known("same"), false) },
		"different":     func(s *apiserver) { s.put(thing("same", "same"), false) },
		"another":       func(s *apiserver) { s.put(thing("same", "another"), false) },
		"changed twice": func(s *apiserver) { s.put(thing("same", "same"), false); s.remove(known("same"), false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: 20 * time.Millisecond, Grace: 10 * time.Millisecond})
			wentBack := counter(t, server)
			s, _, informers := history(t, server)
			run(t, server.Run)
			miss(s)
			for _, i := range informers {
				holds(t, i, s)
			}
			if n := wentBack.Load(); n != 0 {
				t.Errorf("it went back %d times", n)
			}
		})
	}
}

func TestAHealthyServerIsListedOnceHoweverOftenItIsAskedAndCompared(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: time.Millisecond, Compare: 2 * time.Millisecond, Grace: 20 * time.Millisecond})
	wentBack := counter(t, server)
	s, _, informers := history(t, server)
	run(t, server.Run)
	before := s.counted(&s.lists)
	for n := 0; s.counted(&s.probes) < 100; n++ {
		informers[0].Wrote(s.put(thing("busy", "busy"), true))
		if n%100 == 50 {
			s.mu.Lock()
			s.cut() // as at the end of each watch
			s.mu.Unlock()
		}
		time.Sleep(time.Millisecond)
	}
	if n := s.counted(&s.lists) - before; n != 0 {
		t.Errorf("it was listed %d times more", n)
	}
	if n := wentBack.Load(); n != 0 {
		t.Errorf("it went back %d times", n)
	}
}

func TestAnAnswerThatAnObjectIsGoneIsBelievedOverTheWatch(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: never, Grace: 10 * time.Millisecond})
	s, _, informers := history(t, server)
	run(t, server.Run)
	i := informers[0]
	var l log
	i.Handle(l.handle)
	l.take()
	s.remove(known("same"), false)
	s.remove(known("changed"), false)

	i.Gone(known("same"), "another")
	if _, ok := i.Get(known("same")); !ok {
		t.Error("the answer about another object was held against it")
	}
	i.Gone(known("same"), "same")
	if _, ok := i.Get(known("same")); ok {
		t.Error("it is still there")
	}
	if diff := cmp.Diff([]string{"delete |default/same same"}, l.take()[:1]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	holds(t, i, s) // the rest was doubted, too
}

func TestAServerThatCannotBeAskedForItsVersionIsWatchedAllTheSame(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: never})
	s, _, informers := history(t, server)
	s.mu.Lock()
	s.broken = apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "list", schema.GroupResource{Resource: "configmaps"}, "", "", 0, true)
	s.cut()
	s.mu.Unlock()
	s.put(thing("new", "new"), true)
	for _, i := range informers {
		holds(t, i, s)
	}
}

func TestAWatchWaitsUntilItsServerSaysWhetherItWentBack(t *testing.T) {
	t.Parallel()
	server := controller.NewServer("test", controller.ServerOptions{Heartbeat: never, Compare: never})
	wentBack := counter(t, server)
	s, backup, informers := history(t, server)
	before := s.counted(&s.lists)
	s.mu.Lock()
	s.broken = apierrors.NewTimeoutError("busy", 1)
	s.mu.Unlock()
	s.restore(backup, true)
	watched := func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.watches) }
	eventually(t, "the watch was tried again", func() bool { return watched() > 2*len(informers) })
	if n := s.counted(&s.lists) - before; n != 0 || wentBack.Load() != 0 {
		t.Errorf("%d lists; went back %d times, though nobody knows", n, wentBack.Load())
	}
	s.mu.Lock()
	s.broken = nil
	s.mu.Unlock()
	for _, i := range informers {
		holds(t, i, s)
	}
}
