package storage

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	"github.com/kcp-dev/logicalcluster/v3"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// smallList is up to how many objects are read from etcd and decoded faster than the
// watch cache catches up.
const smallList = 5

// listFresh answers a list that has to show all writes before it (no resource
// version), without the wait that upstream's watch cache needs for it. The cache
// of a resource that was not written lately does not know that it is up to date;
// it asks etcd for a progress notification and gets it up to 100 ms later. With
// one watch cache for all logical clusters that would be the rule: any write
// anywhere makes every quiet resource look old.
//
//	the cache has reached etcd's revision     answer from the cache
//	it has not, the list is small or a page   answer from etcd: one prefix
//	it has not                                ask etcd for the notification now, wait
//	                                          for it, answer from the cache
//	and it does not come                      upstream's way
//
// done is false if the answer is to be given in upstream's way.
func (s *store) listFresh(ctx context.Context, c logicalcluster.Name, key string, o storage.ListOptions, list runtime.Object) (done bool, err error) {
	if s.raw == nil || c == scope.Wildcard || !o.Recursive || o.ResourceVersion != "" || o.ResourceVersionMatch != "" || o.Predicate.Continue != "" {
		return false, nil
	}
	now, err := s.raw.GetCurrentResourceVersion(ctx)
	if err != nil {
		return true, err
	}
	cached := o
	cached.ResourceVersion, cached.Predicate.Limit = "0", 0
	if err := s.Interface.GetList(ctx, key, cached, list); err != nil {
		return true, err
	}
	version, err := versionOf(list)
	if err != nil {
		return true, err
	}
	length := meta.LenList(list)
	// A page with a selector may end before its limit: etcd decides where.
	whole := o.Predicate.Limit == 0 || o.Predicate.Empty() && int64(length) <= o.Predicate.Limit
	if version >= now && whole {
		return true, nil
	}
	kind := list.GetObjectKind().GroupVersionKind() // an unstructured list has it
	reflect.ValueOf(list).Elem().SetZero()
	list.GetObjectKind().SetGroupVersionKind(kind)
	if length <= smallList || o.Predicate.Limit != 0 {
		return true, s.raw.GetList(ctx, key, o, list)
	}
	if err := s.raw.RequestWatchProgress(withoutMetadata(ctx)); err != nil {
		return false, nil //nolint:nilerror // the cache asks, too, only later
	}
	cached.ResourceVersion, cached.ResourceVersionMatch = strconv.FormatUint(now, 10), metav1.ResourceVersionMatchNotOlderThan
	err = s.Interface.GetList(ctx, key, cached, list)
	if storage.IsTooLargeResourceVersion(err) {
		return false, nil
	}
	return true, err
}

// withoutMetadata is ctx to ask for progress of the watches of upstream's cache, which have no metadata.
func withoutMetadata(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, nil)
}

func versionOf(list runtime.Object) (uint64, error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return 0, fmt.Errorf("reading the resource version of a list: %w", err)
	}
	version, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the resource version of a list: %w", err)
	}
	return version, nil
}
