package podadmission

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

const (
	// maxConnections bounds those of everybody who reaches the address, maxOfAddress those
	// from one address: a physical cluster that opens connections takes none of others.
	maxConnections = 1024
	maxOfAddress   = 256
)

// Server answers the API servers of physical clusters at one address of this process, each at
// a path of its own. It listens as long as there is somebody to answer.
type Server struct {
	address string
	// url leads to the address, for those of whom nothing else is said.
	url string

	mu      sync.Mutex
	answers map[[sha256.Size]byte]http.HandlerFunc // by the hash of the path
	hosts   map[string]int
	keys    *authority
	stop    func()
}

// NewServer makes one that will listen at address. The url leads there from physical clusters,
// https://HOST[:PORT]; empty, if each PhysicalCluster says its own.
func NewServer(address, url string) *Server {
	return &Server{address: address, url: url, answers: map[[sha256.Size]byte]http.HandlerFunc{}, hosts: map[string]int{}}
}

// completed is wanted with the way to this server, if it names none.
func (s *Server) completed(wanted fleetv1alpha1.PodAdmission) (fleetv1alpha1.PodAdmission, error) {
	if wanted.Service == nil && wanted.URL == "" {
		if s.url == "" {
			return wanted, errors.New("nothing says how the API server of the physical cluster reaches the syncer: set spec.pods.admission.url, or --admission-url of the server")
		}
		wanted.URL = s.url
	}
	return wanted, nil
}

// offer answers requests for path at host, until the result is called; it returns the
// authority by which the server is known.
func (s *Server) offer(path, host string, answer http.HandlerFunc) (ca []byte, withdraw func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		if s.keys, err = newAuthority(); err != nil {
			return nil, nil, err
		}
	}
	if s.stop == nil {
		if s.stop, err = s.listen(); err != nil {
			return nil, nil, fmt.Errorf("listening at %s: %w", s.address, err)
		}
	}
	key := sha256.Sum256([]byte(path))
	s.answers[key] = answer
	s.hosts[host]++
	return s.keys.pem, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.answers, key)
		if s.hosts[host]--; s.hosts[host] == 0 {
			delete(s.hosts, host)
		}
		if len(s.answers) == 0 {
			s.stop()
			s.stop = nil
		}
	}), nil
}

// answer is who answers at a path; nil if nobody does. What is compared are hashes: how long that
// takes says nothing about paths.
func (s *Server) answer(path string) http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[sha256.Sum256([]byte(path))]
}

// offered says whether somebody is answered at host; without one, as by clients of an
// address, all addresses are meant.
func (s *Server) offered(host string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for h := range s.hosts {
		if h == host || host == "" && net.ParseIP(h) != nil {
			out = append(out, h)
		}
	}
	return out
}

func (s *Server) serveHTTP(w http.ResponseWriter, req *http.Request) {
	if answer := s.answer(req.URL.Path); answer != nil && req.Method == http.MethodPost {
		answer(w, req)
		return
	}
	http.NotFound(w, req)
}

// listen serves until stop is called, which ends all connections. It is called with the lock.
func (s *Server) listen() (stop func(), err error) {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return nil, err
	}
	keys := s.keys
	server := &http.Server{
		Handler: http.HandlerFunc(s.serveHTTP),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return keys.certificate(s.offered(hello.ServerName))
		}},
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: answerTimeout, WriteTimeout: 2 * answerTimeout, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	go func() { // ends with Close
		_ = server.ServeTLS(netutil.LimitListener(&sharedListener{Listener: listener, of: map[string]int{}}, maxConnections), "", "")
	}()
	return func() { server.Close() }, nil
}

// sharedListener refuses connections from an address that has many.
type sharedListener struct {
	net.Listener

	mu sync.Mutex
	of map[string]int
}

// Accept implements net.Listener.
func (l *sharedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		if !l.begin(from) {
			_ = conn.Close()
			continue
		}
		return &counted{Conn: conn, end: sync.OnceFunc(func() { l.end(from) })}, nil
	}
}

func (l *sharedListener) begin(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[from] >= maxOfAddress {
		return false
	}
	l.of[from]++
	return true
}

func (l *sharedListener) end(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[from]--; l.of[from] == 0 {
		delete(l.of, from)
	}
}

type counted struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// hostOf is the host that a certificate has to name.
func hostOf(wanted fleetv1alpha1.PodAdmission) (string, error) {
	if s := wanted.Service; s != nil {
		return s.Name + "." + s.Namespace + ".svc", nil
	}
	u, err := url.Parse(wanted.URL)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("spec.pods.admission.url is no URL of a server")
	}
	return u.Hostname(), nil
}
