package storage

import (
	"slices"

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

// history holds the last changes, for watches that start from a resource version.
type history struct {
	// keep is how many changes are kept at least.
	keep    int
	changes []*change
	// floor is the resource version after which no change is missing.
	floor uint64
}

// add appends a change; its resource version is higher than that of any before.
func (h *history) add(c *change) {
	if len(h.changes) >= 2*h.keep {
		h.floor = h.changes[h.keep-1].rv
		n := copy(h.changes, h.changes[h.keep:])
		clear(h.changes[n:])
		h.changes = h.changes[:n]
	}
	h.changes = append(h.changes, c)
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
