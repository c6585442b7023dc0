package reach

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// single sends requests one after the other over one connection. http.Transport would
// make a second one for a WebSocket, of which nobody knows who is at its end.
type single struct {
	dial func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	conn    net.Conn
	in      *bufio.Reader
	limited *io.LimitedReader
	end     bool
}

var _ http.RoundTripper = &single{}

var errEnded = errors.New("the connection ended")

// connect returns the connection, which it makes for the first request.
func (s *single) connect(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.end:
		return nil, errEnded
	case s.conn != nil:
		return s.conn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		s.end = true
		return nil, err
	}
	s.conn, s.limited = conn, &io.LimitedReader{R: conn}
	s.in = bufio.NewReader(s.limited)
	return conn, nil
}

// Close ends the connection.
func (s *single) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end = true; s.conn != nil {
		_ = s.conn.Close()
	}
}

// RoundTrip implements http.RoundTripper. The body of an answer must be read to its end
// before the next request, and its context ends the connection.
func (s *single) RoundTrip(req *http.Request) (*http.Response, error) {
	conn, err := s.connect(req.Context())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(req.Context(), s.Close)
	late := time.AfterFunc(headerTimeout, s.Close)
	s.limited.N = maxHeader
	err = req.Write(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(s.in, req)
	}
	switch inTime := late.Stop(); {
	case req.Context().Err() != nil:
		err = req.Context().Err()
	case !inTime:
		err = context.DeadlineExceeded
	}
	if err != nil {
		stop()
		s.Close()
		return nil, fmt.Errorf("asking: %w", err)
	}
	s.limited.N = math.MaxInt64
	if resp.StatusCode == http.StatusSwitchingProtocols {
		stop() // from now on it is its owner's
		resp.Body = joined{s.in, conn}
		return resp, nil
	}
	resp.Body = closer{resp.Body, func() { stop() }}
	return resp, nil
}

// dialURL makes a connection to the server at base, with TLS if its scheme says so; what
// config says of the server is verified.
func dialURL(dial dialer, base *url.URL, config *tls.Config) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		host, port := base.Hostname(), base.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
		}
		conn, err := dial(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil || base.Scheme == "http" {
			return conn, err
		}
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if config != nil {
			c = config.Clone()
		}
		if c.ServerName == "" {
			c.ServerName = host
		}
		secure := tls.Client(conn, c)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return secure, nil
	}
}
