package down

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

func TestWhatIsRememberedOfAnObjectIsForgottenAsAWhole(t *testing.T) {
	var m memory
	one, other := viewtest.KeyOf("Pod", "web", "one"), viewtest.KeyOf("Pod", "web", "other")
	m.change(one, func(r *remembered) { r.settled = "a" })
	m.change(one, func(r *remembered) { r.reverts = syncer.Reverts{Count: 7} })
	m.change(other, func(r *remembered) { r.uncounted = time.Unix(1, 0) })
	if got := m.get(one); got.settled != "a" || got.reverts.Count != 7 {
		t.Errorf("it remembers %+v", got)
	}
	m.change(other, func(r *remembered) { r.uncounted = time.Time{} })
	if m.len() != 1 {
		t.Errorf("%d objects are remembered, one of them for nothing", m.len())
	}
	m.forget(one)
	if got := m.get(one); !got.isEmpty() || m.len() != 0 {
		t.Errorf("forgotten, it remembers %+v", got)
	}
}

func TestAKeyIsLockedAloneAndWaitedForWhileTheWorldStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keyedMutex
		one, other := viewtest.KeyOf("Pod", "web", "one"), viewtest.KeyOf("Pod", "web", "other")
		unlock := k.lock(one)
		k.lock(other)()
		entered := false
		go func() {
			defer k.lock(one)()
			entered = true
		}()
		synctest.Wait() // hangs if the wait is for a sync.Mutex
		if entered {
			t.Error("two hold the same key")
		}
		unlock()
		synctest.Wait()
		if !entered {
			t.Error("whoever waits for a key does not get it")
		}
		if len(k.keys) > 0 {
			t.Errorf("%d keys are remembered that nobody works on", len(k.keys))
		}
	})
}
