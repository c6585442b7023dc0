package auth

import (
	"context"
	"sync/atomic"
)

type boundKey struct{}

// TrackBound returns a context in which authentication notes of what kind the
// credentials are that it accepts.
func TrackBound(ctx context.Context) context.Context {
	return context.WithValue(ctx, boundKey{}, new(atomic.Bool))
}

// MarkBound notes that credentials were accepted that are good in one logical cluster
// only: service account tokens, and certificates that it issued.
func MarkBound(ctx context.Context) {
	if b, ok := ctx.Value(boundKey{}).(*atomic.Bool); ok {
		b.Store(true)
	}
}

// IsBound reports whether MarkBound was called for a request. What credentials merely
// claim does not count: anybody can write a certificate that names a logical cluster.
func IsBound(ctx context.Context) bool {
	b, ok := ctx.Value(boundKey{}).(*atomic.Bool)
	return ok && b.Load()
}
