package down

import (
	"slices"
	"sync"
	"time"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

const (
	// underWay is how long a host name is held for a logical cluster that is about to
	// have it below: until its watch shows that, at the most.
	underWay = 30 * time.Second
	// maxHosts bounds what is held at a time.
	maxHosts = 4096
)

// hosts are host names that are on their way to the physical cluster: of two logical
// clusters that ask for one at a time, one is first. To lose it costs no more than that
// both get it if they ask again within the same moment.
type hosts struct {
	mu   sync.Mutex
	held map[string]holder
}

type holder struct {
	cluster string
	at      time.Time
}

// take holds all of some host names for a logical cluster, or returns one that is held for
// another. Below is one that another has below; then nothing is held, as who has it would
// find it held. Those that are shown below as its own have arrived: they are held no more, or
// nobody would get them for a while when they are free.
func (h *hosts) take(cluster string, names []string, below string, shown []string, now time.Time) (taken string) {
	if below != "" {
		return below
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, by := range h.held {
		if now.Sub(by.at) > underWay {
			delete(h.held, name)
			continue
		}
		for _, wanted := range names {
			if by.cluster != cluster && syncer.ContestedHosts(wanted, name) {
				taken = max(taken, wanted)
			}
		}
	}
	if taken != "" {
		return taken
	}
	for _, name := range names {
		if slices.Contains(shown, name) {
			delete(h.held, name)
			continue
		}
		if _, held := h.held[name]; !held && len(h.held) >= maxHosts {
			continue
		}
		if h.held == nil {
			h.held = map[string]holder{}
		}
		h.held[name] = holder{cluster, now}
	}
	return ""
}

// release holds some host names no longer for a logical cluster: what wanted them goes.
func (h *hosts) release(cluster string, names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		if h.held[name].cluster == cluster {
			delete(h.held, name)
		}
	}
}
