package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// ports connects ports of a pod with listeners.
type ports struct {
	listeners map[int32]string
	open      atomic.Int32
}

// PortForward implements portforward.PortForwarder.
func (p *ports) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	address, ok := p.listeners[port]
	if !ok {
		return fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: connection refused", port)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	p.open.Add(1)
	defer p.open.Add(-1)
	Pipe(ctx, conn.(*net.TCPConn), stream)
	return nil
}

// serve is the streaming server of a container runtime.
func (p *ports) serve(w http.ResponseWriter, req *http.Request) {
	options, err := portforward.NewV4Options(req)
	if err != nil || !strings.HasSuffix(req.URL.Path, "/portforward") {
		http.Error(w, "no port-forward", http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, req, p, "a", "", options, time.Minute, time.Minute, portforward.SupportedProtocols)
}

func TestAConnectionToAPortOfAPodIsOneEndToEnd(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, _ := io.Copy(io.Discard, req.Body)
		fmt.Fprintf(w, "%s got %d bytes", req.TLS.ServerName, n)
	}))
	t.Cleanup(hook.Close)
	pod := &ports{listeners: map[int32]string{8443: hook.Listener.Addr().String()}}
	p := newPhysical(t, pod.serve)
	roots := x509.NewCertPool()
	roots.AddCert(hook.Certificate())
	for how, link := range p.links(t) {
		var dialled atomic.Int32
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				dialled.Add(1)
				return Forward(ctx, link, call(nil), 8443)
			},
		}
		for range 3 {
			resp, err := (&http.Client{Transport: transport}).Post("https://hook.web.svc/", "text/plain", strings.NewReader(strings.Repeat("x", 3<<20)))
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(body) != "example.com got 3145728 bytes" {
				t.Errorf("%s: %q, %v", how, body, err)
			}
		}
		if dialled.Load() != 1 {
			t.Errorf("%s: three requests took %d connections", how, dialled.Load())
		}
		transport.CloseIdleConnections()
		eventually(t, how+": the connection in the pod ends", func() bool { return pod.open.Load() == 0 })
	}
}

func TestAPortThatNobodyListensOnIsSaidByTheFirstRead(t *testing.T) {
	p := newPhysical(t, (&ports{}).serve)
	for how, link := range p.links(t) {
		for range 50 { // the other side may be done before, or after, the streams are made
			conn, err := Forward(t.Context(), link, call(nil), 9)
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
				conn.Close()
			}
			if err == nil || err.Error() != "port 9 of pod web/a: connection refused" {
				t.Fatalf("%s: it says %v", how, err)
			}
		}
	}
}

func TestNoConnectionIsMadeToAnotherPodOrByWhoIsRefused(t *testing.T) {
	p := newPhysical(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	for how, link := range p.links(t) {
		if _, err := Forward(t.Context(), link, call(func(c *Call) { c.Pod.UID = "other" }), 8443); !apierrors.IsConflict(err) {
			t.Errorf("%s: another pod: %v", how, err)
		}
		if _, err := Forward(t.Context(), link, call(func(c *Call) { c.Pod.Namespace = "p-other" }), 8443); !apierrors.IsConflict(err) {
			t.Errorf("%s: a pod of another logical cluster: %v", how, err)
		}
		if _, err := Forward(t.Context(), link, call(nil), 8443); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "not permitted") {
			t.Errorf("%s: not permitted: %v", how, err)
		}
	}
}

func TestAConnectionIntoAPodEndsWithItsDeadlineAndLeavesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	pod := &ports{listeners: map[int32]string{8443: listener.Addr().String()}}
	p := newPhysical(t, pod.serve)
	for how, link := range p.links(t) {
		before := runtime.NumGoroutine()
		conn, err := Forward(t.Context(), link, call(nil), 8443)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if err := conn.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: reading after the deadline says %v", how, err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: writing after the deadline says %v", how, err)
		}
		eventually(t, how+": nothing is left", func() bool { return pod.open.Load() == 0 && runtime.NumGoroutine() <= before+2 })
	}
}

// silent never answers.
type silent struct{ body io.ReadWriteCloser }

// Do implements Link.
func (s silent) Do(context.Context, Call) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: s.body}, nil
}

func TestConnectingEndsWithItsContext(t *testing.T) {
	here, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Forward(ctx, silent{here}, call(nil), 8443); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a side that says nothing: %v", err)
	}
	if _, err := here.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is open still: %v", err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal(what + ": not within ten seconds")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
