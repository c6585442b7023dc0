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
	"k8s.io/apimachinery/pkg/labels"
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
//	it has not, and few objects are read      answer from etcd: one prefix
//	it has not                                ask etcd for the notification now, wait
//	                                          for it, answer from the cache
//	and it does not come                      upstream's way
//	more are selected than fit a page         answer from etcd, which gives the rest, too
//
// Few are read where few are below the key, or where a page without a selector is wanted; of a selector nobody knows
// how many etcd would have to read for the few that match.
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
	cached, seen := o, &countedLabels{Selector: o.Predicate.Label}
	cached.ResourceVersion, cached.Predicate.Limit = "0", 0
	if !o.Predicate.Empty() {
		cached.Predicate.Label = seen
	}
	if err := s.list(ctx, key, cached, list); err != nil {
		return true, err
	}
	version, err := versionOf(list)
	if err != nil {
		return true, err
	}
	whole := fitsPage(o.Predicate, list)
	if version >= now && whole {
		return true, nil
	}
	few := o.Predicate.Limit != 0 || meta.LenList(list) <= smallList
	if !o.Predicate.Empty() {
		few = seen.n <= smallList && len(o.Predicate.MatcherIndex(ctx)) == 0 // etcd has no index
	}
	if few || !whole {
		return true, s.listRaw(ctx, key, o, list)
	}
	if err := s.raw.RequestWatchProgress(withoutMetadata(ctx)); err != nil {
		reset(list)
		return false, nil //nolint:nilerror // the cache asks, too, only later
	}
	cached.ResourceVersion, cached.ResourceVersionMatch = strconv.FormatUint(now, 10), metav1.ResourceVersionMatchNotOlderThan
	reset(list)
	err = s.list(ctx, key, cached, list)
	if storage.IsTooLargeResourceVersion(err) {
		return false, nil
	}
	if err == nil && !fitsPage(o.Predicate, list) {
		return true, s.listRaw(ctx, key, o, list)
	}
	return true, err
}

// list lists from the watch cache, or what is in its place.
func (s *store) list(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	beginList(o.Predicate)
	return s.Interface.GetList(ctx, key, o, list) //nolint:wrapcheck // explained by who asks
}

// listRaw lists from etcd, into a list that may have been used.
func (s *store) listRaw(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	reset(list)
	beginList(o.Predicate)
	return s.raw.GetList(ctx, key, o, list) //nolint:wrapcheck // explained by who asks
}

// fitsPage says that all that is selected is on the page that is wanted.
func fitsPage(p storage.SelectionPredicate, list runtime.Object) bool {
	return p.Limit == 0 || int64(meta.LenList(list)) <= p.Limit
}

func reset(list runtime.Object) {
	kind := list.GetObjectKind().GroupVersionKind() // an unstructured list has it
	reflect.ValueOf(list).Elem().SetZero()
	list.GetObjectKind().SetGroupVersionKind(kind)
}

// countedLabels counts the objects that are held against a selector.
type countedLabels struct {
	labels.Selector
	n int
}

// Matches implements labels.Selector.
func (c *countedLabels) Matches(l labels.Labels) bool {
	c.n++
	return c.Selector.Matches(l)
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
