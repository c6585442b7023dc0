package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// busyInterval is between two collections of a server that collects too often: who needs
	// memory while one goes on helps with it, for as long as a hundred requests take.
	busyInterval = time.Second
	// busyGarbage is how many bytes of garbage such a server may have, beside as much as it holds.
	busyGarbage = 192 << 20
	// idleInterval without a collection ends that.
	idleInterval = 10 * time.Second
	// defaultGCPercent is that of Go.
	defaultGCPercent = 100
)

// collections decides how much garbage a server has before it collects it.
type collections struct {
	last time.Time
	busy bool
}

// collected is the percent of garbage after a collection that left so many live bytes.
//
//	since the last one              percent
//	less than busyInterval          what busyGarbage is of live, and the default
//	less than idleInterval          the same if it was the same, else the default
//	more                            the default
func (c *collections) collected(now time.Time, live uint64) int {
	since := now.Sub(c.last)
	c.last = now
	c.busy = since < busyInterval || c.busy && since < idleInterval
	if !c.busy {
		return defaultGCPercent
	}
	return defaultGCPercent + int(busyGarbage*100/max(live, 1<<20)) //nolint:gosec // at most 19,200 more
}

// idle reports that a busy server has not collected for idleInterval: what it has as garbage is to go.
func (c *collections) idle(now time.Time) bool {
	if !c.busy || now.Sub(c.last) < idleInterval {
		return false
	}
	c.busy = false
	return true
}

// collect lets a busy server have more garbage, in place of collecting it several times a
// second, until ctx ends: no more than busyGarbage, however often that has it collect. An operator who asks for less or more of it (GOGC) gets that, and a limit of
// all memory (GOMEMLIMIT) holds in any case.
func collect(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	c := collections{last: time.Now()}
	done := make(chan struct{}, 1)
	notify(done)
	ticker := time.NewTicker(idleInterval)
	defer ticker.Stop()
	percent := defaultGCPercent
	for {
		next := percent
		select {
		case <-ctx.Done():
			return
		case <-done:
			next = c.collected(time.Now(), live())
			notify(done)
		case <-ticker.C:
			if c.idle(time.Now()) {
				next = defaultGCPercent
			}
		}
		if next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
	}
}

// notify sends to done when the next collection is over.
func notify(done chan<- struct{}) {
	runtime.AddCleanup(new([16]byte), func(done chan<- struct{}) {
		select {
		case done <- struct{}{}:
		default:
		}
	}, done)
}

// live is what the last collection left, in bytes.
func live() uint64 {
	of := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(of)
	return of[0].Value.Uint64()
}
