package controller

import "testing"

func TestWhoWorksWithAnEarlierValueIsNotified(t *testing.T) {
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	v := NewVariable("a")
	first := v.Changed("a")
	v.Set("a")
	if closed(first) {
		t.Error("the same value is no change")
	}
	v.Set("b")
	if v.Current() != "b" || !closed(first) {
		t.Errorf("it is %q, notified: %v", v.Current(), closed(first))
	}
	if !closed(v.Changed("a")) {
		t.Error("who comes late with an earlier value is not notified")
	}
	if closed(v.Changed("b")) {
		t.Error("who has the value of now is notified")
	}
}
