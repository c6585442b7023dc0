package limits

import (
	"hash/maphash"
	"math"
	"strings"
	"time"
)

// history is how long etcd keeps old versions: its compactor runs this often and keeps
// what was written since the run before.
const history = 5 * time.Minute

// tally is what all logical clusters keep. It takes some twenty bytes for each object.
type tally struct {
	seed  maphash.Seed
	sizes map[uint64]uint32
	kept  map[string]*[classes]amount
}

func newTally() *tally {
	return &tally{seed: maphash.MakeSeed(), sizes: map[uint64]uint32{}, kept: map[string]*[classes]amount{}}
}

// size is how large what is stored under a key is; zero says that nothing is.
func (t *tally) size(key string) int64 { return int64(t.sizes[maphash.String(t.seed, key)]) }

// set says how large what is stored under a key is now; zero takes it away.
func (t *tally) set(key string, bytes int64) {
	cluster, c, ok := account(key)
	if !ok {
		return
	}
	id := maphash.String(t.seed, key)
	before, now := int64(t.sizes[id]), min(bytes, math.MaxUint32)
	if before == now {
		return
	}
	kept := t.kept[cluster]
	if kept == nil {
		kept = &[classes]amount{}
		t.kept[strings.Clone(cluster)] = kept
	}
	kept[c].bytes += now - before
	switch {
	case before == 0:
		kept[c].count++
	case now == 0:
		kept[c].count--
	}
	if now == 0 {
		delete(t.sizes, id)
	} else {
		t.sizes[id] = uint32(now)
	}
	if *kept == ([classes]amount{}) {
		delete(t.kept, cluster)
	}
}

// use is what a logical cluster keeps.
func (t *tally) use(cluster string) [classes]amount {
	if kept := t.kept[cluster]; kept != nil {
		return *kept
	}
	return [classes]amount{}
}

// recent is how much was written lately, of which etcd keeps the old versions.
type recent struct {
	since          time.Time
	before, lately map[string]*[classes]int64
}

func (r *recent) rotate(now time.Time) {
	switch age := now.Sub(r.since); {
	case age >= 2*history || age < 0:
		r.since, r.before, r.lately = now, nil, map[string]*[classes]int64{}
	case age >= history:
		r.since, r.before, r.lately = r.since.Add(history), r.lately, map[string]*[classes]int64{}
	}
}

// take counts what was written under a key.
func (r *recent) take(now time.Time, key string, bytes int64) {
	if name, c, ok := account(key); ok {
		r.add(now, name, c, bytes)
	}
}

// add counts what was written by an account.
func (r *recent) add(now time.Time, cluster string, c class, bytes int64) {
	r.rotate(now)
	written := r.lately[cluster]
	if written == nil {
		written = &[classes]int64{}
		r.lately[strings.Clone(cluster)] = written
	}
	written[c] += bytes
}

func (r *recent) of(now time.Time, cluster string) (all [classes]int64) {
	r.rotate(now)
	for _, m := range []map[string]*[classes]int64{r.before, r.lately} {
		if written := m[cluster]; written != nil {
			for c := range all {
				all[c] += written[c]
			}
		}
	}
	return all
}
