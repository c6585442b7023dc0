package tunnel

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Handler has a stream, and closes it before it returns.
type Handler func(ctx context.Context, stream io.ReadWriteCloser)

// serve is the agent's end of a tunnel: it returns when conn has ended and no stream is
// handled any more.
func serve(ctx context.Context, rwc io.ReadWriteCloser, handle Handler) {
	var streams sync.WaitGroup
	ended := make(chan struct{})
	conn := wrap(rwc, func() { close(ended) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+helloPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("POST "+streamPath, func(w http.ResponseWriter, req *http.Request) {
		streams.Add(1)
		defer streams.Done()
		s := &served{body: req.Body, to: w, control: http.NewResponseController(w)}
		w.WriteHeader(http.StatusOK)
		if s.control.Flush() == nil {
			handle(req.Context(), s)
		}
	})
	server := &http.Server{
		Handler: mux, Protocols: onlyHTTP2(), HTTP2: h2(), ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer streams.Wait()
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = server.Serve(&one{conn: conn, ended: ended}) // ends with conn
}

// one is a listener of one connection; it ends with that.
type one struct {
	conn  net.Conn
	given bool
	ended chan struct{}
}

var errEnded = errors.New("the tunnel ended")

// Accept implements net.Listener.
func (o *one) Accept() (net.Conn, error) {
	if !o.given {
		o.given = true
		return o.conn, nil
	}
	<-o.ended
	return nil, errEnded
}

// Close implements net.Listener; the connection is closed by who serves it.
func (o *one) Close() error { return nil }

// Addr implements net.Listener.
func (o *one) Addr() net.Addr { return address{} }

// served is a stream at the agent's end.
type served struct {
	body    io.ReadCloser
	to      io.Writer
	control *http.ResponseController

	mu      sync.Mutex
	closed  bool
	writing bool
}

// Read implements io.Reader.
func (s *served) Read(p []byte) (int, error) { return s.body.Read(p) }

// Write implements io.Writer: what was written is on its way.
func (s *served) Write(p []byte) (int, error) {
	if !s.begin() {
		return 0, io.ErrClosedPipe
	}
	defer s.end()
	n, err := s.to.Write(p)
	if err == nil {
		err = s.control.Flush()
	}
	return n, err
}

func (s *served) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = !s.closed
	return s.writing
}

func (s *served) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
}

// Close ends a read and a write that wait. A stream that nobody writes to ends as it
// should, with what was written, when its handler returns.
func (s *served) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	past := time.Unix(1, 0)
	if s.writing {
		_ = s.control.SetWriteDeadline(past) // fails for what has ended
	}
	_ = s.control.SetReadDeadline(past)
	return s.body.Close()
}
