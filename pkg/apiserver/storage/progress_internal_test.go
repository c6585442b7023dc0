package storage

import (
	"testing"
	"time"
)

func TestProgressStandsStillIfItIsAskedForAtOneRevisionForAWhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// asked is when, in ms, and at which revision.
		asked [][2]int64
		want  bool
	}{
		"once":                        {[][2]int64{{0, 7}}, false},
		"twice at once":               {[][2]int64{{0, 7}, {100, 7}}, false},
		"again and again":             {[][2]int64{{0, 7}, {100, 7}, {200, 7}, {300, 7}}, true},
		"while others write":          {[][2]int64{{0, 7}, {100, 8}, {200, 9}, {300, 10}}, false},
		"now and then":                {[][2]int64{{0, 7}, {1000, 7}, {2000, 7}}, false},
		"after what was written once": {[][2]int64{{0, 7}, {100, 7}, {200, 7}, {300, 8}, {400, 8}, {500, 8}}, false},
	} {
		p, last := &progressing{}, false
		for _, a := range c.asked {
			last = p.standsStill(a[1], time.UnixMilli(1_000_000+a[0]))
		}
		if last != c.want {
			t.Errorf("%s: %v", name, last)
		}
	}
}
