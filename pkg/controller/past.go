package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
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
	if has, ok := i.store.identity(key); ok && has.uid == uid {
		sink[T]{i}.remove(key)
	}
	i.mu.Unlock()
	i.server.doubt(i)
}

// Doubt has the informer compared with its server: an answer contradicts it.
func (i *Informer[T]) Doubt() { i.server.doubt(i) }

// Precedes says that a version that the server answered with is of before something that is known of it: it went back,
// or an event came after the answer. The informer is compared with its server then.
func (i *Informer[T]) Precedes(version string) bool {
	if !older(version, i.seen.mark().highest) {
		return false
	}
	i.Doubt()
	return true
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
	version, err := i.newest(i.source.scoped(ctx))
	if err != nil {
		return nil, fmt.Errorf("asking for the newest version of %s: %w", i.name, err)
	}
	return i.seen.went(before, version), nil
}

// newest asks for metadata, if it can: the object may be a Secret of somebody else.
func (i *Informer[T]) newest(ctx context.Context) (string, error) {
	o := metav1.ListOptions{Limit: 1}
	if i.metadata != nil {
		list, err := i.metadata(ctx, o)
		if err != nil {
			return "", err
		}
		return list.ResourceVersion, nil
	}
	list, err := i.source.lw.List(ctx, o)
	if err != nil {
		return "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	return m.GetResourceVersion(), nil
}

// reconnected is asked before a watch that goes on from a version is believed. If
// the server was away before, it may have gone back and caught up with its versions
// since: then only a comparison tells.
func (i *Informer[T]) reconnected(ctx context.Context, after bool) error {
	went, err := i.probe(ctx)
	switch {
	case isUnavailable(err):
		// The reflector tries again later and does not list everything.
		return apierrors.NewTooManyRequests(err.Error(), 1)
	case err != nil:
		// Who answers a watch, but not this, cannot be asked at all.
		klog.FromContext(ctx).V(2).Info("Going on without knowing whether the server went back", "informer", i.name, "err", err)
		i.server.doubt(i)
		return nil
	case went != nil:
		i.server.wentBack(ctx, i, *went)
		return apierrors.NewResourceExpired(fmt.Sprintf("the server went back from resource version %s to %s", went.had, went.has))
	}
	if after {
		i.server.doubt(i)
	}
	return nil
}

// isUnavailable says that nothing was answered, or that it is to be tried again.
func isUnavailable(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err)
	}
	var network net.Error // also *url.Error, and a deadline
	return errors.As(err, &network)
}

// listed takes the version of a complete list, whose objects come next. It is not
// current if the server turned out to have gone back since it was asked for.
func (i *Informer[T]) listed(version string) (current bool) {
	before := i.source.listed(version)
	if went := i.seen.went(before, version); went != nil {
		i.server.wentBack(context.Background(), i, *went) // a store has no context
	}
	i.seen.raise(version)
	return i.seen.mark().past == before.past
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

// forget implements member. What the informer has until its next list proves nothing.
func (i *Informer[T]) forget() {
	i.position.Store(nil)
	i.seen.forget()
}
