package tunnel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// other is a server that gives streams of a pool, and says who asked it for which target.
func other(t *testing.T, pool *Pool) (s *httptest.Server, asked chan string) {
	t.Helper()
	asked = make(chan string, 10)
	s = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		target, ok := TargetOf(req.URL.Path[len("/clusters/root"):])
		if !ok {
			t.Errorf("asked for %s", req.URL.Path)
		}
		asked <- target + " " + req.URL.Query().Get(PeerUID)
		pool.Give(w, req, target)
	}))
	t.Cleanup(s.Close)
	return s, asked
}

func peersOf(names bool, servers ...*httptest.Server) *Peers {
	p := &Peers{Roots: x509.NewCertPool(), Certificate: func() (tls.Certificate, error) { return servers[0].TLS.Certificates[0], nil }}
	var addresses []string
	for _, s := range servers {
		p.Roots.AddCert(s.Certificate())
		addresses = append(addresses, s.Listener.Addr().String())
	}
	if names {
		p.name = "example.com" // what httptest has a certificate for
	}
	p.Addresses = func() []string { return addresses }
	return p
}

func TestAStreamLeadsThroughTheServerThatHasTheTunnel(t *testing.T) {
	w := newWorld(t)
	w.agent(t, echo)
	none, askedNone := other(t, NewPool())
	some, askedSome := other(t, w.pool)
	gone := httptest.NewTLSServer(nil)
	gone.Close()

	conn, err := peersOf(true, none, gone, some).Dial(t.Context(), "east", "1")
	if err != nil {
		t.Fatal(err)
	}
	if one, two := <-askedNone, <-askedSome; one != "east 1" || two != "east 1" {
		t.Errorf("asked for %s and %s", one, two)
	}
	within(t, "a word and its answer", func() error { return says(conn, "through two servers") })

	// Either end of it ends the other.
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	w.until(t, "the stream ends in the tunnel", func() bool {
		w.pool.mu.Lock()
		defer w.pool.mu.Unlock()
		return len(w.pool.tunnels["east"][0].free) == 0
	})
	again, err := peersOf(true, some).Dial(t.Context(), "east", "1")
	if err != nil {
		t.Fatal(err)
	}
	w.pool.CloseTo("east")
	within(t, "the end of the stream", func() error {
		if _, err := again.Read(make([]byte, 1)); err == nil {
			return errors.New("something is read from a tunnel that is gone")
		}
		return nil
	})
}

func TestNoTunnelAnywhereIsSaid(t *testing.T) {
	none, _ := other(t, NewPool())
	if _, err := peersOf(true, none).Dial(t.Context(), "east", "1"); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
	alone := &Peers{Addresses: func() []string { return nil }}
	if _, err := alone.Dial(t.Context(), "east", "1"); !errors.Is(err, ErrNone) {
		t.Errorf("a server that stands alone: %v", err)
	}
}

// What answers at an address of a server without being one gets nothing.
func TestAServerThatCannotShowWhoItIsIsNotAsked(t *testing.T) {
	w := newWorld(t)
	w.agent(t, echo)
	impostor, asked := other(t, w.pool)
	for what, p := range map[string]*Peers{
		"of another authority": {Roots: x509.NewCertPool(), Addresses: peersOf(true, impostor).Addresses, Certificate: peersOf(true, impostor).Certificate},
		"with another name":    peersOf(false, impostor),
	} {
		if _, err := p.Dial(t.Context(), "east", "1"); !errors.Is(err, ErrNone) {
			t.Errorf("one %s: %v", what, err)
		}
	}
	select {
	case target := <-asked:
		t.Errorf("it was asked for %s", target)
	default:
	}
}

func TestPathsOfStreamsNameOneTarget(t *testing.T) {
	for path, want := range map[string]string{"/tunnels/east": "east", "/tunnels/": "", "/tunnels/east/x": "", "/tunnel": "", "/": ""} {
		if got, ok := TargetOf(path); ok != (want != "") || ok && got != want {
			t.Errorf("%s names %q, %v", path, got, ok)
		}
	}
}
