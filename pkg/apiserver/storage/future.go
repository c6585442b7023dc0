package storage

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
)

// reached is the highest revision that etcd was seen to have: what is not above it
// needs no question.
type reached struct{ revision atomic.Uint64 }

func (r *reached) raise(to uint64) {
	for {
		now := r.revision.Load()
		if to <= now || r.revision.CompareAndSwap(now, to) {
			return
		}
	}
}

// refuseFuture refuses a watch that continues from a resource version that etcd has
// not reached: whoever holds one has it from before a backup was restored. Upstream
// accepts such a watch and drops every event up to that version, so that its reader
// knows nothing of what it missed, and believes that all is well.
//
//	watch from a version                 Expired (410), which every client answers with a list
//	list, or watch that begins with one  upstream's: "Too large resource version" (504)
//
// Another server over the same etcd may have written the version a moment ago: etcd
// itself is asked, not the watch cache.
func (s *store) refuseFuture(ctx context.Context, o storage.ListOptions) error {
	if wantsInitialEvents(o) {
		return nil // the list that it begins with is refused
	}
	rv, err := s.Versioner().ParseResourceVersion(o.ResourceVersion)
	if err != nil {
		return nil //nolint:nilerror // who serves the watch says so
	}
	if rv <= s.reached.revision.Load() {
		return nil
	}
	current, err := s.GetCurrentResourceVersion(ctx)
	if err != nil {
		// Not an error of the watch, after which clients would list everything.
		return apierrors.NewTooManyRequests(fmt.Sprintf("the revision of etcd is not known: %v", err), 1)
	}
	s.reached.raise(current)
	if rv > current {
		return apierrors.NewResourceExpired(fmt.Sprintf(
			"resource version %d is from the future (current: %d), as if a backup had been restored: list again", rv, current))
	}
	return nil
}
