//go:build linux

package real

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Streams of all kinds are under way when every packet between the server and the physical
// cluster is lost: each ends, no goroutine of the server's and no connection of the syncer's
// stays, and all works again with the network.
func TestANetworkThatIsCutInMidStreamLeavesNothing(t *testing.T) {
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			ctx := context.Background()
			n := newReached(t, on)
			says := func() error {
				out, err := n.in(ctx, "deployment/app", "cat", "/etc/hostname")
				if err == nil && !strings.HasPrefix(out, "app-") {
					err = fmt.Errorf("exec says %q", out)
				}
				return err
			}
			eventually(t, says)
			quiet, open := goroutines(t), connections(t, on)
			var ended []<-chan struct{}
			for range 30 {
				ended = append(ended, ends(t, n, "logs", "-f", "deployment/app", "-c", "few"), ends(t, n, "exec", "deployment/app", "-c", "tools", "--", "/tools", "print", "0"))
			}
			busy := goroutines(t)
			if more := connections(t, on) - open; busy < quiet+60 || theLab.PhysicalCluster(on).Pull && more < 60 {
				t.Errorf("VOID: 60 streams are %d goroutines and %d connections more", busy-quiet, more)
			}
			restore, err := theLab.PhysicalCluster(on).Cut()
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for _, e := range ended {
				select {
				case <-e:
				case <-time.After(waitTimeout):
					t.Fatal("a stream goes on over a network that is cut")
				}
			}
			eventually(t, func() error { return atMost(goroutines(t), quiet+20) })
			eventually(t, func() error { return atMost(connections(t, on), open+5) })
			t.Logf("%d goroutines, %d with 60 streams, ended %s after the cut", quiet, busy, time.Since(began).Round(time.Second))
			if err := restore(); err != nil {
				t.Fatal(err)
			}
			eventually(t, says)
		})
	}
}

// ends starts a command that prints without end, waits for its first line, and says when it
// ends.
func ends(t *testing.T, n tenant, args ...string) <-chan struct{} {
	t.Helper()
	lines := started(t, n.Command(t.Context(), args...))
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("kubectl %v: %v", args, err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, lines)
	}()
	return end
}

var goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\S+)$`)

// goroutines is how many the server has.
func goroutines(t *testing.T) int {
	t.Helper()
	found := goroutinesLine.FindStringSubmatch(must(t)(theLab.Root.Run(t.Context(), "get", "--raw", "/metrics")))
	if found == nil {
		t.Fatal("the server does not say how many goroutines it has")
	}
	count, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(count)
}

// connections is how many descriptors the syncer has open, if there is one.
func connections(t *testing.T, on string) int {
	t.Helper()
	syncer := theLab.PhysicalCluster(on).Syncer
	if syncer == nil {
		return 0
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", syncer.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

func atMost(n, most int) error {
	if n > most {
		return fmt.Errorf("there are %d, want %d at most", n, most)
	}
	return nil
}
