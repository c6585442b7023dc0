package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection/connectiontest"
)

// gatedTo is a client that goes through a gate to whatever the balancer leads to.
func gatedTo(t *testing.T, b *connectiontest.Balancer) (Physical, *Gate) {
	t.Helper()
	p, g, err := NewPhysical(&rest.Config{
		Host: "https://physical", QPS: -1, Dial: b.Dial, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}, func(next http.RoundTripper) http.RoundTripper { return next }, controller.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Fresh)
	return p, g
}

func write(t *testing.T, p Physical, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(name)})
}

func TestNothingIsSentToAClusterThatIsNotMeant(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		t.Run(name, func(t *testing.T) {
			east, west := connectiontest.NewClusterServer(t, "east", http2), connectiontest.NewClusterServer(t, "west", http2)
			b := &connectiontest.Balancer{}
			b.To.Store(east)
			p, g := gatedTo(t, b)
			alarms := make(chan struct{}, 100)
			g.OnAlarm(func() { alarms <- struct{}{} })

			if err := write(t, p, "early"); !errors.Is(err, ErrNotMeant) {
				t.Errorf("before anybody is meant: %v", err)
			}
			g.Admit("east", "cp", false)
			if err := write(t, p, "first"); err != nil {
				t.Fatal(err)
			}
			b.To.Store(west) // the connection stays
			if err := write(t, p, "second"); err != nil {
				t.Fatal(err)
			}
			for range 3 { // connections go one by one, as each of them ends
				east.CloseClientConnections()
				g.Fresh()
				if err := write(t, p, "third"); !errors.Is(err, ErrNotMeant) {
					t.Errorf("on a connection to another cluster: %v", err)
				}
				if _, err := p.Kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !errors.Is(err, ErrNotMeant) {
					t.Errorf("it is read from another cluster: %v", err)
				}
			}
			if other, _ := g.Noticed(); other != "west" || len(alarms) == 0 {
				t.Errorf("noticed %q, %d alarms", other, len(alarms))
			}
			b.To.Store(east)
			g.Fresh()
			if err := write(t, p, "fourth"); err != nil {
				t.Errorf("back: %v", err)
			}
			if got := west.Writes(); len(got) > 0 {
				t.Errorf("written to the other cluster: %q", got)
			}
			if got := strings.Join(east.Writes(), " "); strings.Count(got, "DELETE") != 3 || strings.Contains(got, "third") {
				t.Errorf("written to the one that is meant: %s", got)
			}
		})
	}
}

// The connection changes at the worst moment: after it was identified, before the
// request. Only the body of a write knows which connection that goes over, and only
// the answer to a read which one it came over.
func TestWhatGoesOverAReplacedConnectionIsHeldBackAndNotBelieved(t *testing.T) {
	east, west := connectiontest.NewClusterServer(t, "east", true), connectiontest.NewClusterServer(t, "west", true)
	b := &connectiontest.Balancer{}
	b.To.Store(east)
	p, g := gatedTo(t, b)
	g.Admit("east", "cp", false)
	if err := write(t, p, "first"); err != nil {
		t.Fatal(err)
	}
	b.To.Store(west)
	read := func() error {
		_, err := p.Kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err
	}
	for name, do := range map[string]func() error{"a write": func() error { return write(t, p, "second") }, "a read": read} {
		g.Fresh()
		// It is there before the request, and nobody has noticed.
		if _, _, err := g.Ask(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.known.Store(true)
		if err := do(); !errors.Is(err, ErrNotMeant) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := west.Writes(); len(got) > 0 {
		t.Errorf("written to the other cluster: %q", got)
	}
}

// A cluster whose data was replaced under a server that runs on keeps its
// connections: whoever asks again notices.
func TestAClusterThatChangesOnItsConnectionsIsNotBelievedToHaveLostACopy(t *testing.T) {
	east := connectiontest.NewClusterServer(t, "east", true)
	b := &connectiontest.Balancer{}
	b.To.Store(east)
	p, g := gatedTo(t, b)
	g.Admit("east", "cp", false)
	if err := errors.Join(write(t, p, "first"), g.Confirm(t.Context())); err != nil {
		t.Fatal(err)
	}
	east.Set(func() { east.UID = "new" })
	if err := g.Confirm(t.Context()); !errors.Is(err, ErrNotMeant) {
		t.Errorf("confirmed: %v", err)
	}
	if err := write(t, p, "second"); !errors.Is(err, ErrNotMeant) {
		t.Errorf("written: %v", err)
	}
	if other, _ := g.Noticed(); other != "new" || b.Dials.Load() != 1 {
		t.Errorf("noticed %q after %d connections", other, b.Dials.Load())
	}
}

func TestAnEmptiedClusterIsNoticedOnItsNextConnection(t *testing.T) {
	east := connectiontest.NewClusterServer(t, "east", true)
	east.Ours = 1
	b := &connectiontest.Balancer{}
	b.To.Store(east)
	p, g := gatedTo(t, b)
	expected := 3
	g.Expect(func() int { return expected })
	again := func(populated bool) error {
		g.Admit("east", "cp", populated)
		east.CloseClientConnections()
		g.Fresh()
		return write(t, p, "x")
	}
	if err := again(true); err != nil {
		t.Fatalf("with namespaces: %v", err)
	}
	east.Set(func() { east.Ours = 0 })
	if err := again(true); !errors.Is(err, ErrLost) {
		t.Errorf("without: %v", err)
	}
	if _, lost := g.Noticed(); !lost {
		t.Error("it is not noticed")
	}
	if err := again(false); err != nil {
		t.Errorf("it never had any, or that was confirmed: %v", err)
	}
	expected = 0
	if err := again(true); err != nil {
		t.Errorf("none is expected: %v", err)
	}
}

func TestWhoAnswersIsAskedOnceForEachConnection(t *testing.T) {
	east := connectiontest.NewClusterServer(t, "east", true)
	b := &connectiontest.Balancer{}
	b.To.Store(east)
	p, g := gatedTo(t, b)
	g.Admit("east", "cp", false)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := write(t, p, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if east.Asked != int(b.Dials.Load()) || east.Asked == 0 {
		t.Errorf("asked %d times on %d connections", east.Asked, b.Dials.Load())
	}
}

func TestAWriteWithoutABodyIsRefused(t *testing.T) {
	g := NewGate(nil, func() {})
	g.Admit("east", "cp", false)
	req := httptest.NewRequest(http.MethodDelete, "https://physical/x", http.NoBody)
	if _, err := (gated{gate: g, next: http.DefaultTransport}).RoundTrip(req); err == nil || !strings.Contains(err.Error(), "body") {
		t.Errorf("%v", err)
	}
}

func TestChecksThatBeganLaterAnswerForAllWhoWait(t *testing.T) {
	var c checks
	running, proceed := make(chan struct{}), make(chan struct{})
	var n atomic.Int32
	check := func() error {
		if n.Add(1) == 1 {
			close(running)
			<-proceed
		}
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() { _ = c.share(t.Context(), check) })
	<-running
	before := c.steps.Load()
	for range 20 {
		all.Go(func() { _ = c.share(t.Context(), check) })
	}
	for c.steps.Load() < before+20 {
		time.Sleep(time.Millisecond)
	}
	close(proceed)
	all.Wait()
	if got := n.Load(); got != 2 {
		t.Errorf("%d checks: the first began before the others came, the second answers for all of them", got)
	}
}

func TestWarningsOfServersStayOutOfTheLog(t *testing.T) {
	if c := tuned(&rest.Config{}); c.WarningHandler != (rest.NoWarnings{}) {
		t.Errorf("they go to %T", c.WarningHandler)
	}
}
