package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// clusterServer is as much of an API server as these tests need: kube-system, our
// namespaces, and a note of everything that is written.
type clusterServer struct {
	*httptest.Server
	mu        sync.Mutex
	uid       types.UID
	forbidden bool
	ours      int
	written   []string
	asked     int
}

func newClusterServer(t *testing.T, uid types.UID, http2 bool) *clusterServer {
	s := &clusterServer{uid: uid}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *clusterServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case req.Method != http.MethodGet:
		if err != nil {
			return // it was not meant for us
		}
		s.written = append(s.written, req.Method+" "+string(body))
		answer(metav1.Status{Status: "Success"})
	case req.URL.Path == "/api/v1/namespaces/kube-system":
		s.asked++
		if s.forbidden {
			status := apierrors.NewForbidden(corev1.Resource("namespaces"), "kube-system", nil).Status()
			w.WriteHeader(int(status.Code))
			answer(status)
			return
		}
		n := kubeSystem(s.uid)
		n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
		answer(n)
	case discovered[req.URL.Path] != "":
		_, _ = io.WriteString(w, discovered[req.URL.Path])
	default:
		list := corev1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}, Items: make([]corev1.Namespace, s.ours)}
		answer(list)
	}
}

var discovered = map[string]string{
	"/version": `{"gitVersion":"v1.37.1"}`,
	"/api":     `{"kind":"APIVersions","apiVersion":"v1","versions":["v1"]}`,
	"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1":  `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]}]}`,
}

func (s *clusterServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *clusterServer) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.written...)
}

// balancer is a name that leads to one cluster or another, as a load balancer or a
// DNS entry that changes. Connections stay where they are.
type balancer struct {
	to    atomic.Pointer[clusterServer]
	dials atomic.Int32
}

func (b *balancer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	b.dials.Add(1)
	return (&net.Dialer{}).DialContext(ctx, network, b.to.Load().Listener.Addr().String())
}

// gatedTo is a client that goes through a gate to whatever the balancer leads to.
func gatedTo(t *testing.T, b *balancer) (physical, *gate) {
	t.Helper()
	var f fence
	f.extend(time.Now().Add(time.Hour))
	p, g, err := newPhysical(&rest.Config{
		Host: "https://physical", QPS: -1, Dial: b.dial, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}, &f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.fresh)
	return p, g
}

func write(t *testing.T, p physical, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p.kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(name)})
}

func TestNothingIsSentToAClusterThatIsNotMeant(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		t.Run(name, func(t *testing.T) {
			east, west := newClusterServer(t, "east", http2), newClusterServer(t, "west", http2)
			b := &balancer{}
			b.to.Store(east)
			p, g := gatedTo(t, b)
			alarms := make(chan struct{}, 100)
			g.alarm = func() { alarms <- struct{}{} }

			if err := write(t, p, "early"); !errors.Is(err, errNotMeant) {
				t.Errorf("before anybody is meant: %v", err)
			}
			g.admit("east", "cp", false)
			if err := write(t, p, "first"); err != nil {
				t.Fatal(err)
			}
			b.to.Store(west) // the connection stays
			if err := write(t, p, "second"); err != nil {
				t.Fatal(err)
			}
			for range 3 { // connections go one by one, as each of them ends
				east.CloseClientConnections()
				g.fresh()
				if err := write(t, p, "third"); !errors.Is(err, errNotMeant) {
					t.Errorf("on a connection to another cluster: %v", err)
				}
				if _, err := p.kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !errors.Is(err, errNotMeant) {
					t.Errorf("it is read from another cluster: %v", err)
				}
			}
			if other, _ := g.noticed(); other != "west" || len(alarms) == 0 {
				t.Errorf("noticed %q, %d alarms", other, len(alarms))
			}
			b.to.Store(east)
			g.fresh()
			if err := write(t, p, "fourth"); err != nil {
				t.Errorf("back: %v", err)
			}
			if got := west.writes(); len(got) > 0 {
				t.Errorf("written to the other cluster: %q", got)
			}
			if got := strings.Join(east.writes(), " "); strings.Count(got, "DELETE") != 3 || strings.Contains(got, "third") {
				t.Errorf("written to the one that is meant: %s", got)
			}
		})
	}
}

// The connection changes at the worst moment: after it was identified, before the
// request. Only the body of a write knows which connection that goes over, and only
// the answer to a read which one it came over.
func TestWhatGoesOverAReplacedConnectionIsHeldBackAndNotBelieved(t *testing.T) {
	east, west := newClusterServer(t, "east", true), newClusterServer(t, "west", true)
	b := &balancer{}
	b.to.Store(east)
	p, g := gatedTo(t, b)
	g.admit("east", "cp", false)
	if err := write(t, p, "first"); err != nil {
		t.Fatal(err)
	}
	b.to.Store(west)
	read := func() error {
		_, err := p.kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err
	}
	for name, do := range map[string]func() error{"a write": func() error { return write(t, p, "second") }, "a read": read} {
		g.fresh()
		// It is there before the request, and nobody has noticed.
		if _, _, err := g.ask(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.known.Store(true)
		if err := do(); !errors.Is(err, errNotMeant) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := west.writes(); len(got) > 0 {
		t.Errorf("written to the other cluster: %q", got)
	}
}

// A cluster whose data was replaced under a server that runs on keeps its
// connections: whoever asks again notices.
func TestAClusterThatChangesOnItsConnectionsIsNotBelievedToHaveLostACopy(t *testing.T) {
	east := newClusterServer(t, "east", true)
	b := &balancer{}
	b.to.Store(east)
	p, g := gatedTo(t, b)
	g.admit("east", "cp", false)
	if err := errors.Join(write(t, p, "first"), g.confirm(t.Context())); err != nil {
		t.Fatal(err)
	}
	east.set(func() { east.uid = "new" })
	if err := g.confirm(t.Context()); !errors.Is(err, errNotMeant) {
		t.Errorf("confirmed: %v", err)
	}
	if err := write(t, p, "second"); !errors.Is(err, errNotMeant) {
		t.Errorf("written: %v", err)
	}
	if other, _ := g.noticed(); other != "new" || b.dials.Load() != 1 {
		t.Errorf("noticed %q after %d connections", other, b.dials.Load())
	}
}

func TestAnEmptiedClusterIsNoticedOnItsNextConnection(t *testing.T) {
	east := newClusterServer(t, "east", true)
	east.ours = 1
	b := &balancer{}
	b.to.Store(east)
	p, g := gatedTo(t, b)
	expected := 3
	g.expect(func() int { return expected })
	again := func(populated bool) error {
		g.admit("east", "cp", populated)
		east.CloseClientConnections()
		g.fresh()
		return write(t, p, "x")
	}
	if err := again(true); err != nil {
		t.Fatalf("with namespaces: %v", err)
	}
	east.set(func() { east.ours = 0 })
	if err := again(true); !errors.Is(err, errLost) {
		t.Errorf("without: %v", err)
	}
	if _, lost := g.noticed(); !lost {
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
	east := newClusterServer(t, "east", true)
	b := &balancer{}
	b.to.Store(east)
	p, g := gatedTo(t, b)
	g.admit("east", "cp", false)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := write(t, p, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if east.asked != int(b.dials.Load()) || east.asked == 0 {
		t.Errorf("asked %d times on %d connections", east.asked, b.dials.Load())
	}
}

func TestAWriteWithoutABodyIsRefused(t *testing.T) {
	var f fence
	f.extend(time.Now().Add(time.Hour))
	g := &gate{alarm: func() {}}
	g.admit("east", "cp", false)
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
