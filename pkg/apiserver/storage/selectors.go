package storage

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// shownSelector is how many bytes of a selector a watch cache has as text, which it keeps for people.
const shownSelector = 1 << 10

// Watch implements storage.Interface. The selectors of the watch are let go when its request ends: upstream keeps
// watchers that have ended behind the end of a list that it uses again and again, one list for each resource, and a
// selector of 30 KiB takes 600 in memory.
func (c *watchCache) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	if s := o.Predicate.Label; s != nil && !s.Empty() {
		held := &heldLabels{shown: shown(s.String())}
		held.selector.Store(&s)
		context.AfterFunc(ctx, func() { held.selector.Store(nil) })
		o.Predicate.Label = held
	}
	if s := o.Predicate.Field; s != nil && !s.Empty() {
		held := &heldFields{shown: shown(s.String())}
		held.selector.Store(&s)
		context.AfterFunc(ctx, func() { held.selector.Store(nil) })
		o.Predicate.Field = held
	}
	return c.CacheDelegator.Watch(ctx, key, o) //nolint:wrapcheck // it is that of upstream
}

func shown(text string) string {
	if len(text) > shownSelector {
		return text[:shownSelector] + "..."
	}
	return text
}

// heldLabels is a selector until it is let go, and selects nothing then.
type heldLabels struct {
	selector atomic.Pointer[labels.Selector]
	shown    string
}

func (h *heldLabels) held() labels.Selector {
	if s := h.selector.Load(); s != nil {
		return *s
	}
	return labels.Nothing()
}

// Matches implements labels.Selector, as the others do.
func (h *heldLabels) Matches(l labels.Labels) bool                { return h.held().Matches(l) }
func (h *heldLabels) Empty() bool                                 { return h.held().Empty() }
func (h *heldLabels) String() string                              { return h.shown }
func (h *heldLabels) Add(r ...labels.Requirement) labels.Selector { return h.held().Add(r...) }
func (h *heldLabels) Requirements() (labels.Requirements, bool)   { return h.held().Requirements() }
func (h *heldLabels) DeepCopySelector() labels.Selector           { return h.held().DeepCopySelector() }
func (h *heldLabels) RequiresExactMatch(label string) (v string, b bool) {
	return h.held().RequiresExactMatch(label)
}

// heldFields is the same of fields.
type heldFields struct {
	selector atomic.Pointer[fields.Selector]
	shown    string
}

func (h *heldFields) held() fields.Selector {
	if s := h.selector.Load(); s != nil {
		return *s
	}
	return fields.Nothing()
}

// Matches implements fields.Selector, as the others do.
func (h *heldFields) Matches(f fields.Fields) bool { return h.held().Matches(f) }
func (h *heldFields) Empty() bool                  { return h.held().Empty() }
func (h *heldFields) String() string               { return h.shown }
func (h *heldFields) Transform(f fields.TransformFunc) (fields.Selector, error) {
	return h.held().Transform(f)
}
func (h *heldFields) Requirements() fields.Requirements { return h.held().Requirements() }
func (h *heldFields) DeepCopySelector() fields.Selector { return h.held().DeepCopySelector() }
func (h *heldFields) RequiresExactMatch(field string) (v string, b bool) {
	return h.held().RequiresExactMatch(field)
}
