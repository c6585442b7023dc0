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
		shown   []string
	}{
		{0, "one", []string{"a.example.com"}, "", "", nil},
		{0, "two", []string{"b.example.com", "a.example.com"}, "", "a.example.com", nil},
		{0, "three", []string{"b.example.com"}, "", "", nil}, // two got none of them
		{0, "two", []string{"*.example.com"}, "", "*.example.com", nil},
		{0, "one", []string{"a.example.com", "c.example.com"}, "", "", nil},
		{underWay, "two", []string{"c.example.com"}, "", "c.example.com", nil},
		{time.Second, "two", []string{"c.example.com"}, "", "", nil},                   // it has arrived, or never will
		{0, "thief", []string{"d.example.com"}, "d.example.com", "d.example.com", nil}, // one has it below
		{0, "one", []string{"d.example.com"}, "", "", nil},                             // and is not kept from it
		{0, "two", []string{"d.example.com"}, "", "d.example.com", nil},
		{0, "one", []string{"d.example.com", "e.example.com"}, "", "", []string{"d.example.com"}}, // one arrived
		{0, "two", []string{"d.example.com"}, "", "", nil},                                        // and went
		{0, "two", []string{"e.example.com"}, "", "e.example.com", nil},
	} {
		now = now.Add(step.after)
		if taken := h.take(step.cluster, step.names, step.below, step.shown, now); taken != step.taken {
			t.Errorf("%s asks for %v: %q is taken, not %q", step.cluster, step.names, taken, step.taken)
		}
	}
}

func TestWhoGoesHoldsNoHosts(t *testing.T) {
	t.Parallel()
	var h hosts
	now := time.Unix(1000, 0)
	h.take("one", []string{"a.example.com", "b.example.com"}, "", nil, now)
	h.release("two", []string{"a.example.com"})
	if taken := h.take("two", []string{"a.example.com"}, "", nil, now); taken == "" {
		t.Error("who does not hold it releases it")
	}
	h.release("one", []string{"a.example.com"})
	if taken := h.take("two", []string{"a.example.com"}, "", nil, now); taken != "" {
		t.Errorf("%s is held after it was released", taken)
	}
	if taken := h.take("two", []string{"b.example.com"}, "", nil, now); taken == "" {
		t.Error("the other one is not held any more")
	}
}

func TestHostsThatAreHeldAreBounded(t *testing.T) {
	t.Parallel()
	var h hosts
	for n := range 2 * maxHosts {
		h.take("one", []string{fmt.Sprintf("h%d.example.com", n)}, "", nil, time.Unix(1000, 0))
	}
	if len(h.held) != maxHosts {
		t.Errorf("%d are held", len(h.held))
	}
}
