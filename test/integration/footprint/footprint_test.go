// Package footprint bounds what a server holds that nobody uses. It is a package of
// its own: the figures are those of the whole process.
package footprint

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// The bounds leave a tenth for what comes and goes; `make bench` has the figures.
const (
	mostGoroutines = 1000
	mostHeap       = 50 << 20
	// mostConnections are those of the storages and of what watches etcd's health.
	mostConnections = 8
)

func TestAnEmptyServerIsSmall(t *testing.T) {
	goroutines, heap := runtime.NumGoroutine(), heapNow()
	server.Start(t)

	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine()-goroutines > mostGoroutines && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	if n := runtime.NumGoroutine() - goroutines; n > mostGoroutines {
		t.Errorf("%d goroutines, at most %d", n, mostGoroutines)
	}
	if n := int64(heapNow()) - int64(heap); n > mostHeap {
		t.Errorf("%d MiB of heap, at most %d", n>>20, mostHeap>>20)
	}
	if n := count(t, "transport.(*http2Client).reader"); n == 0 || n > mostConnections {
		t.Errorf("%d connections to etcd, at most %d", n, mostConnections)
	}
}

// heapNow is what is reachable.
func heapNow() uint64 {
	for range 3 { // finalizers and pools hold some of it for a collection or two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// count is how many goroutines are in a function.
func count(t *testing.T, function string) int {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	return bytes.Count(stacks.Bytes(), []byte(function+"("))
}
