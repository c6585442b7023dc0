package storage

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// keys maps the keys of one resource, as registries know them, to keys of
// logical clusters.
type keys struct{ prefix string }

// rewrite inserts the segment c behind the prefix of the resource. Keys that
// would lead elsewhere (empty, with dots, of another resource) are refused.
func (k keys) rewrite(key string, c logicalcluster.Name, recursive bool) (string, error) {
	if _, err := storage.PrepareKey(k.prefix, key, recursive); err != nil {
		return "", err
	}
	root := strings.TrimSuffix(k.prefix, "/")
	rest, ok := strings.CutPrefix(key, root)
	if !ok || (rest != "" && rest[0] != '/') {
		return "", apierrors.NewInternalError(fmt.Errorf("key %q is not below %q", key, root))
	}
	return root + "/" + c.String() + rest, nil
}

// one rewrites the key of an object, for a request about one logical cluster.
func (k keys) one(ctx context.Context, key string) (string, logicalcluster.Name, error) {
	return k.inCluster(ctx, key, false)
}

func (k keys) inCluster(ctx context.Context, key string, recursive bool) (string, logicalcluster.Name, error) {
	c, ok := scope.ClusterFrom(ctx)
	switch {
	case !ok:
		return "", "", apierrors.NewInternalError(fmt.Errorf("%w: %s", scope.ErrNoCluster, k.prefix))
	case c == scope.Wildcard:
		return "", "", apierrors.NewBadRequest("only list and watch may span all logical clusters")
	case !validSegment(c):
		return "", "", apierrors.NewInternalError(fmt.Errorf("%q is no name of a logical cluster", c))
	}
	key, err := k.rewrite(key, c, recursive)
	return key, c, err
}

// many rewrites a key for a list or watch, which may span all logical clusters
// if it is about the whole resource.
func (k keys) many(ctx context.Context, key string, recursive bool) (string, logicalcluster.Name, error) {
	if c, _ := scope.ClusterFrom(ctx); c != scope.Wildcard {
		return k.inCluster(ctx, key, recursive)
	}
	if strings.TrimSuffix(key, "/") != strings.TrimSuffix(k.prefix, "/") {
		return "", "", apierrors.NewBadRequest("a list or watch over all logical clusters cannot name a namespace or an object")
	}
	return key, scope.Wildcard, nil
}

// validSegment reports whether c is one segment of a key and no part of
// another's: names are DNS labels (scope.ValidateName), this is the guard
// behind the guard and cheap.
func validSegment(c logicalcluster.Name) bool {
	for i := range len(c) {
		b := c[i]
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' {
			return false
		}
	}
	return len(c) > 0
}
