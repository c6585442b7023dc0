package storage

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// apply takes one event of the watch cache.
func (h *hub) apply(e watch.Event) error {
	rv, err := h.versioner.ObjectResourceVersion(e.Object)
	if err != nil {
		return fmt.Errorf("reading the version of an event of %s: %w", h.gr, err)
	}
	if e.Type == watch.Bookmark {
		h.advance(rv)
		return nil
	}
	obj, err := h.share(e.Object)
	if err != nil {
		return err
	}
	key, err := h.key(obj)
	if err != nil {
		return err
	}
	var now *entry
	if e.Type != watch.Deleted {
		if targets := h.targets(obj); len(targets) > 0 {
			now = &entry{key: key, obj: obj, targets: targets}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rv = rv
	c := &change{rv: rv, at: h.now(), old: h.entries[key], new: now}
	if c.old == nil && c.new == nil {
		return nil
	}
	if now == nil {
		delete(h.entries, key)
	} else {
		h.entries[key] = now
	}
	h.history.add(c)
	for _, target := range c.targets() {
		for w := range h.watches[target] {
			if !w.offer(pending{change: c, live: e.Object}) {
				h.forget(w)
			}
		}
	}
	return nil
}

// share returns the object of an event as it is in the watch cache.
func (h *hub) share(obj runtime.Object) (runtime.Object, error) {
	wrapped, ok := obj.(runtime.CacheableObject)
	if !ok {
		return obj, nil // an event of the past: a copy made for us
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if seen := h.recent.find(m); seen != nil {
		return seen, nil
	}
	return wrapped.GetObject(), nil
}

// advance takes a bookmark of the watch cache, one a minute, and passes it on:
// without it the last version that a quiet view knows would fall out of history.
func (h *hub) advance(rv uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rv = max(h.rv, rv)
	h.history.trim(h.now())
	for _, ws := range h.watches {
		for w := range ws {
			if w.predicate.AllowWatchBookmarks && !w.offer(pending{bookmark: rv}) {
				h.forget(w)
			}
		}
	}
}

// add registers w, which wants all changes after rv; zero means from now on.
func (h *hub) add(w *viewWatch, rv uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rv == 0 || h.ctx.Err() != nil {
		return apierrors.NewTooManyRequests(fmt.Sprintf("the views of %s are being loaded", h.gr), 1)
	}
	if rv == 0 {
		rv = h.rv
	}
	changes, ok := h.history.since(rv)
	if !ok {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, h.history.floor))
	}
	w.after = rv
	for _, c := range changes {
		if w.concerns(c) && !w.offer(pending{change: c}) {
			return apierrors.NewResourceExpired(fmt.Sprintf("too many changes since resource version %d", rv))
		}
	}
	if h.watches[w.target] == nil {
		h.watches[w.target] = map[*viewWatch]struct{}{}
	}
	h.watches[w.target][w] = struct{}{}
	return nil
}

// remove takes w out.
func (h *hub) remove(w *viewWatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(w)
}

func (h *hub) forget(w *viewWatch) {
	delete(h.watches[w.target], w)
	if len(h.watches[w.target]) == 0 {
		delete(h.watches, w.target)
	}
}
