package builtin

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

// services is upstream's storage of Services, whose requests release what they have claimed of addresses when
// they have ended. The hooks of a store end before it writes, and begin anew when it tries again.
type services struct {
	*servicestore.REST
	claims Claims
}

// Create implements rest.Creater.
func (s services) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	ctx, release := s.hold(ctx)
	defer release()
	return s.REST.Create(ctx, obj, validate, o) //nolint:wrapcheck // of the same interface
}

// Update implements rest.Updater.
func (s services) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc,
	createToo bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	ctx, release := s.hold(ctx)
	defer release()
	return s.REST.Update(ctx, name, info, create, update, createToo, o) //nolint:wrapcheck // of the same interface
}

func (s services) hold(ctx context.Context) (_ context.Context, release func()) {
	h := held{}
	return context.WithValue(ctx, heldKey{}, h), func() {
		if len(h) > 0 {
			s.claims.Release(ctx, slices.Collect(maps.Values(h))...)
		}
	}
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
