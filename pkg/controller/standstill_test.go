package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestAStandstillIsWhatNobodyRanIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := clocktesting.NewFakePassiveClock(began)
		s := NewStandstill(c)
		c.SetTime(began.Add(time.Hour)) // nobody watches
		if total, ended := s.Stood(); total != 0 || !ended.IsZero() {
			t.Errorf("before it is watched: %s until %s", total, ended)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		synctest.Wait()
		at := began.Add(time.Hour)
		for range 60 {
			at = at.Add(standstillInterval)
			c.SetTime(at)
			time.Sleep(standstillInterval)
			synctest.Wait()
		}
		if total, _ := s.Stood(); total != 0 {
			t.Errorf("it ran, and stood still for %s", total)
		}
		at = at.Add(45 * time.Second) // who asks is the first that runs
		c.SetTime(at)
		if total, ended := s.Stood(); total != 45*time.Second || !ended.Equal(at) {
			t.Errorf("%s until %s", total, ended)
		}
		at = at.Add(20 * time.Second) // the ticker is
		c.SetTime(at)
		time.Sleep(standstillInterval)
		synctest.Wait()
		if total, ended := s.Stood(); total != 65*time.Second || !ended.Equal(at) {
			t.Errorf("%s until %s", total, ended)
		}
		stop()
		<-done
	})
}
