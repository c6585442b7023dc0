package agent

import (
	"sync"
	"time"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

// maxReverts bounds how many contested copies are remembered.
const maxReverts = 4096

// damper remembers which copies were changed below and put back, so that two who
// want different things of one object do not write in turn as fast as they can.
// What it means is decided by syncer.Plan.
type damper struct {
	mu     sync.Mutex
	counts map[objectKey]syncer.Reverts
}

func (d *damper) get(key objectKey) syncer.Reverts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[key]
}

// reverted notes one more revert, and what counts now.
func (d *damper) reverted(key objectKey, now time.Time) syncer.Reverts {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[objectKey]syncer.Reverts{}
	}
	r := d.counts[key].Again(now)
	d.counts[key] = r
	if len(d.counts) > maxReverts {
		d.trim(now)
	}
	return r
}

// forget: the object has changed, or is gone.
func (d *damper) forget(key objectKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.counts, key)
}

// trim drops what does not count any more; if that is nothing, the half of it that
// is easiest to find.
func (d *damper) trim(now time.Time) {
	for key, r := range d.counts {
		if r.At(now).Count == 0 {
			delete(d.counts, key)
		}
	}
	for key := range d.counts {
		if len(d.counts) <= maxReverts/2 {
			break
		}
		delete(d.counts, key)
	}
}
