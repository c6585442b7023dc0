package app

import (
	"runtime"
	"testing"
	"time"
)

func TestABusyServerMayHaveMoreGarbageAndAnIdleOneNot(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := collections{last: now}
	const megabyte = 1 << 20
	for _, step := range []struct {
		what  string
		after time.Duration
		live  uint64
		want  int
	}{
		{"the first", 5 * time.Second, 50 * megabyte, 100},
		{"soon after it", 300 * time.Millisecond, 48 * megabyte, 500},
		{"later, with more that is held", 3 * time.Second, 192 * megabyte, 200},
		{"with much more", 3 * time.Second, 1920 * megabyte, 110},
		{"with next to nothing", 3 * time.Second, 0, 19300},
		{"long after", 11 * time.Second, 48 * megabyte, 100},
		{"later", 3 * time.Second, 48 * megabyte, 100},
	} {
		now = now.Add(step.after)
		if got := c.collected(now, step.live); got != step.want {
			t.Errorf("%s: %d %%, want %d %%", step.what, got, step.want)
		}
	}
	if c.idle(now.Add(time.Hour)) {
		t.Error("one that was idle becomes idle")
	}
	now = now.Add(time.Millisecond)
	c.collected(now, megabyte)
	if c.idle(now.Add(9 * time.Second)) {
		t.Error("a busy one is idle too early")
	}
	if !c.idle(now.Add(10*time.Second)) || c.busy {
		t.Error("a busy one that does not collect is not idle")
	}
}

func TestTheEndOfACollectionIsNoticed(t *testing.T) {
	t.Parallel()
	done := make(chan struct{}, 1)
	for range 2 {
		notify(done)
		runtime.GC()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("nobody noticed")
		}
	}
	if live() == 0 {
		t.Error("nothing is live")
	}
}
