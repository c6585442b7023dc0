package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// probeTimeout bounds the question for the newest resource version.
const probeTimeout = 10 * time.Second

// Wrote tells the informer of the version that a write of its resource was answered
// with: a server that has only older ones went back.
func (i *Informer[T]) Wrote(version string) { i.seen.raise(version) }

// Gone tells the informer that a request to its server was answered that the object
// with this UID does not exist. That is believed over what watches told: it is
// reported to the handlers as gone, and the informer is compared with its server.
func (i *Informer[T]) Gone(r Request, uid types.UID) {
	key := r.String()
	i.mu.Lock()
	if obj, ok := i.store.get(key); ok && obj.GetUID() == uid {
		sink[T]{i}.remove(key)
	}
	i.mu.Unlock()
	i.server.doubt(i)
}

// probe implements member. It asks for one object, without selectors, and without a
// version: what is answered is as new as what the server has stored.
func (i *Informer[T]) probe(ctx context.Context) (*regress, error) {
	if !i.HasSynced() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	before := i.seen.mark()
	list, err := i.source.lw.List(i.source.scoped(ctx), metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("asking for the newest version of %s: %w", i.name, err)
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("asking for the newest version of %s: %w", i.name, err)
	}
	return i.seen.went(before, m.GetResourceVersion()), nil
}

// reconnected is asked before a watch that goes on from a version is believed. If
// the server was away before, it may have gone back and caught up with its versions
// since: then only a comparison tells.
func (i *Informer[T]) reconnected(ctx context.Context, after bool) error {
	went, err := i.probe(ctx)
	switch {
	case err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown, apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		// The reflector tries again later and does not list everything.
		return apierrors.NewTooManyRequests(err.Error(), 1)
	case err != nil:
		return err
	case went != nil:
		i.server.wentBack(ctx, i, *went)
		return apierrors.NewResourceExpired(fmt.Sprintf("the server went back from resource version %s to %s", went.had, went.has))
	}
	if after {
		i.server.doubt(i)
	}
	return nil
}

// listed takes the version of a complete list, whose objects come next.
func (i *Informer[T]) listed(version string) {
	before := i.source.listed(version)
	if went := i.seen.went(before, version); went != nil {
		i.server.wentBack(context.Background(), i, *went) // a store is not told the context
	}
	i.seen.raise(version)
}

// relist implements member.
func (i *Informer[T]) relist() {
	i.source.relist()
	i.runMu.Lock()
	again := i.again
	i.runMu.Unlock()
	again()
}

// anew implements member.
func (i *Informer[T]) anew(since regress) bool { return i.seen.mark().past != since.past }

// forget implements member.
func (i *Informer[T]) forget() { i.seen.forget() }
