package storage

import (
	"context"
	"sync/atomic"
)

type removedKey struct{}

// WithRemoved returns a context in which Removed answers.
func WithRemoved(ctx context.Context) context.Context {
	return context.WithValue(ctx, removedKey{}, &atomic.Bool{})
}

// Removed reports whether a request with ctx, or a context made from it, has
// removed an object from storage: a deletion that an object's finalizers do not
// hold up.
func Removed(ctx context.Context) bool {
	removed, ok := ctx.Value(removedKey{}).(*atomic.Bool)
	return ok && removed.Load()
}

func noteRemoved(ctx context.Context) {
	if removed, ok := ctx.Value(removedKey{}).(*atomic.Bool); ok {
		removed.Store(true)
	}
}
