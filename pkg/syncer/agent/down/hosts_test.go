package down

import (
	"fmt"
	"testing"
	"time"
)

func TestOfTwoLogicalClustersThatAskForAHostAtATimeOneIsFirst(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var h hosts
	for _, step := range []struct {
		after   time.Duration
		cluster string
		names   []string
		below   string
		taken   string
	}{
		{0, "one", []string{"a.example.com"}, "", ""},
		{0, "two", []string{"b.example.com", "a.example.com"}, "", "a.example.com"},
		{0, "three", []string{"b.example.com"}, "", ""}, // two got none of them
		{0, "two", []string{"*.example.com"}, "", "*.example.com"},
		{0, "one", []string{"a.example.com", "c.example.com"}, "", ""},
		{underWay, "two", []string{"c.example.com"}, "", "c.example.com"},
		{time.Second, "two", []string{"c.example.com"}, "", ""},                   // it has arrived, or never will
		{0, "thief", []string{"d.example.com"}, "d.example.com", "d.example.com"}, // one has it below
		{0, "one", []string{"d.example.com"}, "", ""},                             // and is not kept from it
	} {
		now = now.Add(step.after)
		if taken := h.take(step.cluster, step.names, step.below, now); taken != step.taken {
			t.Errorf("%s asks for %v: %q is taken, not %q", step.cluster, step.names, taken, step.taken)
		}
	}
}

func TestHostsThatAreHeldAreBounded(t *testing.T) {
	t.Parallel()
	var h hosts
	for n := range 2 * maxHosts {
		h.take("one", []string{fmt.Sprintf("h%d.example.com", n)}, "", time.Unix(1000, 0))
	}
	if len(h.held) != maxHosts {
		t.Errorf("%d are held", len(h.held))
	}
}
