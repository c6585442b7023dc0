package storage

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// entry is one version of an object that is visible to at least one target.
type entry struct {
	key string
	// obj is shared with the watch cache: copy before changing or handing out.
	obj     runtime.Object
	targets []string
}

// change is what one event did to one object of the views.
type change struct {
	rv uint64
	at time.Time
	// old and new are nil where the object was or is not visible to any target.
	old, new *entry
}

// targets are those whose view the change concerns, each once.
func (c *change) targets() []string {
	switch {
	case c.old == nil:
		return c.new.targets
	case c.new == nil || slices.Equal(c.old.targets, c.new.targets):
		return c.old.targets
	}
	all := slices.Clone(c.new.targets)
	for _, t := range c.old.targets {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// history holds the last changes, for watches that start from a resource version:
// those of the last while (window), and at most 2*keep. Each holds two versions of an
// object in memory that nobody else may need any more.
type history struct {
	// keep is how many changes are kept when there are too many.
	keep    int
	window  time.Duration
	changes []*change
	// floor is the resource version after which no change is missing.
	floor uint64
}

// add appends a change; its resource version is higher than that of any before.
func (h *history) add(c *change) {
	if len(h.changes) >= 2*h.keep {
		h.forget(h.keep)
	}
	h.trim(c.at)
	h.changes = append(h.changes, c)
}

// trim forgets what happened longer than window before now.
func (h *history) trim(now time.Time) {
	old, _ := slices.BinarySearchFunc(h.changes, now.Add(-h.window), func(c *change, before time.Time) int { return c.at.Compare(before) })
	// A slice that moved for each change would cost more than it frees.
	if old > len(h.changes)/4 {
		h.forget(old)
	}
}

// forget drops the n oldest changes.
func (h *history) forget(n int) {
	h.floor = h.changes[n-1].rv
	left := copy(h.changes, h.changes[n:])
	clear(h.changes[left:])
	h.changes = h.changes[:left]
}

// since returns the changes after rv; ok is false if some of them are forgotten.
// The result is valid until the next add.
func (h *history) since(rv uint64) (changes []*change, ok bool) {
	if rv < h.floor {
		return nil, false
	}
	first, _ := slices.BinarySearchFunc(h.changes, rv+1, func(c *change, rv uint64) int {
		switch {
		case c.rv < rv:
			return -1
		case c.rv > rv:
			return 1
		}
		return 0
	})
	return h.changes[first:], true
}
