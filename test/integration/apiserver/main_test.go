package apiserver

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/server"
)

var (
	mu   sync.Mutex
	only *server.Server
)

// shared returns the one server of the package.
func shared(t *testing.T) *server.Server {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if only == nil {
		only = server.StartShared(t)
	}
	return only
}

func TestMain(m *testing.M) {
	code := m.Run()
	if only != nil {
		only.Shutdown()
	}
	os.Exit(code)
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	server.Eventually(t, time.Minute, what, check)
}
