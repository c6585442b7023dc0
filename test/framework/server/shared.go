package server

import (
	"os"
	"sync"
	"testing"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
)

// Shared is one server for all tests of a package. The first that asks starts it;
// the package's TestMain ends it.
type Shared struct {
	// Change alters the options of the server.
	Change func(*app.Options)

	mu     sync.Mutex
	server *Server
}

// Get returns the server.
func (s *Shared) Get(t testing.TB) *Server {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		change := s.Change
		if change == nil {
			change = func(*app.Options) {}
		}
		s.server = StartSharedWith(t, change)
	}
	return s.server
}

// Main is what TestMain does: it runs the tests and ends the server.
func (s *Shared) Main(m *testing.M) {
	code := m.Run()
	if s.server != nil {
		s.server.Shutdown()
	}
	os.Exit(code)
}
