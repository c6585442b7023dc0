package app

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/tunnel"
)

func TestWhatATunnelSaysOfAPhysicalCluster(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	hangs := errors.New("it does not answer in time")
	for name, c := range map[string]struct {
		answered, way error
		ended         time.Time
		want          string
	}{
		"it answers":                           {},
		"it answers, after a tunnel had ended": {ended: ago(time.Second)},
		"it hangs":                             {answered: hangs, want: hangs.Error()},
		"all streams are open":                 {answered: hangs, way: fmt.Errorf("opening: %w", tunnel.ErrFull), ended: ago(time.Second)},
		"there never was a tunnel":             {answered: hangs, way: tunnel.ErrNone},
		"its tunnel ended long ago":            {answered: hangs, way: tunnel.ErrNone, ended: ago(placement.Silence + time.Second)},
		"its tunnel has just ended":            {answered: hangs, way: tunnel.ErrNone, ended: ago(3 * time.Second), want: "the tunnel of its syncer ended 3s ago, and there is no other one"},
	} {
		got := ""
		if err := throughTunnel(c.answered, c.way, c.ended, now); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
