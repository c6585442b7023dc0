package placement

import (
	"testing"
	"time"
)

func TestWhatFollowsAwaitsPodsForTwoSecondsByTheClockOfWhoLooks(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name          string
		created, seen time.Duration
		want          time.Duration
	}{
		{"it was just made", 0, 0, 2 * time.Second},
		{"it was made in this second, which is cut", -900 * time.Millisecond, 0, 2 * time.Second},
		{"it waits", -time.Second, -500 * time.Millisecond, 1500 * time.Millisecond},
		{"it has waited", -3 * time.Second, -2 * time.Second, 0},
		{"it has waited for longer", -9 * time.Second, -8 * time.Second, 0},
		{"who stored it is behind", -9 * time.Second, 0, 2 * time.Second},
		{"who stored it is far behind", -10 * time.Second, 0, 0},
		{"who stored it is ahead", time.Hour, 0, 2 * time.Second},
		{"who stored it is ahead, and it has waited", time.Hour, -2 * time.Second, 0},
		{"it was made long before this server started", -time.Hour, 0, 0},
		{"the clock was put back", -time.Second, time.Hour, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := AwaitsPods(now.Add(c.created), now.Add(c.seen), now); got != c.want {
				t.Errorf("it waits for %s, want %s", got, c.want)
			}
		})
	}
}
