package apiserver

import (
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/server"
)

var only server.Shared

// shared returns the one server of the package.
func shared(t *testing.T) *server.Server {
	t.Helper()
	return only.Get(t)
}

func TestMain(m *testing.M) { only.Main(m) }

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	server.Eventually(t, time.Minute, what, check)
}
