package builtin

import (
	"context"
	"errors"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

// services is upstream's storage of Services, whose requests release what they have claimed of addresses when
// they have ended, or leave it to end by itself. The hooks of a store end before it writes, and begin anew when it tries again.
type services struct {
	*servicestore.REST
	claims Claims
}

// Create implements rest.Creater.
func (s services) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (_ runtime.Object, err error) {
	ctx, release := s.hold(ctx)
	defer func() { release(err) }()
	return s.REST.Create(ctx, obj, validate, o) //nolint:wrapcheck // of the same interface
}

// Update implements rest.Updater.
func (s services) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc,
	createToo bool, o *metav1.UpdateOptions,
) (_ runtime.Object, created bool, err error) {
	ctx, release := s.hold(ctx)
	defer func() { release(err) }()
	return s.REST.Update(ctx, name, info, create, update, createToo, o) //nolint:wrapcheck // of the same interface
}

// hold is a context in which claims are collected, and what releases them with the error of the request.
func (s services) hold(ctx context.Context) (_ context.Context, release func(error)) {
	h := held{}
	return context.WithValue(ctx, heldKey{}, h), func(err error) {
		if len(h) > 0 && settled(ctx, err) {
			s.claims.Release(ctx, slices.Collect(maps.Values(h))...)
		}
	}
}

// settled says that what a request wrote is stored, or will not be. Of one that was given up, or that etcd did not answer, it
// may be stored yet.
func settled(ctx context.Context, err error) bool {
	var answered apierrors.APIStatus
	return ctx.Err() == nil && (err == nil || errors.As(err, &answered) && !apierrors.IsTimeout(err))
}

// held are the claims of a request, by value.
type held map[string]*storage.Claim

type heldKey struct{}

// heldFrom are the claims of the request of a context. What is claimed in another one ends by itself.
func heldFrom(ctx context.Context) held {
	if h, ok := ctx.Value(heldKey{}).(held); ok {
		return h
	}
	return held{}
}
