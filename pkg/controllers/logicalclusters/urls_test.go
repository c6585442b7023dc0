package logicalclusters

import (
	"testing"
	"time"
)

func TestAnotherURLIsWrittenOnceInAWhile(t *testing.T) {
	var u urls
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		what  string
		after time.Duration
		name  string
		want  time.Duration
	}{
		{"the first time", 0, "shop", 0},
		{"at once", 0, "shop", time.Minute},
		{"of another one", 0, "bank", 0},
		{"soon after", 20 * time.Second, "shop", 40 * time.Second},
		{"after a while", time.Minute, "shop", 0},
		{"by a clock that was set back", 30 * time.Second, "shop", 0},
	} {
		if got := u.wait(c.name, now.Add(c.after)); got != c.want {
			t.Errorf("%s: it waits %s, not %s", c.what, got, c.want)
		}
	}
	if u.forget("shop"); len(u.written) != 1 {
		t.Errorf("of what is gone is remembered %v", u.written)
	}
}
