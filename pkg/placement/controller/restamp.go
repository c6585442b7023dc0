package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// retry has admission decide with one pending object. If that decides, the
// change of the Placement brings the namespace back here for the others. What follows others
// decides only if there is nothing else, and nothing else has come for a moment.
func (c *Controller) retry(ctx context.Context, u *unit) (controller.Result, error) {
	asks := asker(u.pending)
	if left := c.awaitsPods(asks); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	if left := c.retries.left(u.key, c.Clock.Now()); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	if err := c.restamp(ctx, asks); err != nil {
		return controller.Result{}, err
	}
	if err := c.recordEvents(ctx, u); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: withoutNews(c.Placements.CountByIndex(undecidedIndex, u.key.Cluster.String()))}, nil
}

// awaitsPods is for how much longer an object that asks first leaves its unit undecided.
func (c *Controller) awaitsPods(o stamped) time.Duration {
	if !o.kind.Follows() {
		return 0
	}
	now := c.Clock.Now()
	seen, ok := c.followed.Get(o.object.UID)
	if !ok {
		seen = now
		c.followed.Add(o.object.UID, now, time.Minute)
	}
	return placement.AwaitsPods(o.object.CreationTimestamp.Time, seen.(time.Time), now)
}

// asker is the object that asks for a decision.
func asker(list []stamped) stamped {
	out := list[0]
	for _, o := range list[1:] {
		if o.before(out) {
			out = o
		}
	}
	return out
}

// before says that an object asks rather than another one: it makes pods, and the other only
// follows such, or it is older.
func (s stamped) before(other stamped) bool {
	if s.kind.Follows() != other.kind.Follows() {
		return other.kind.Follows()
	}
	return s.object.CreationTimestamp.Before(&other.object.CreationTimestamp)
}

// restamp changes nothing by itself: the write passes admission, which stamps.
func (c *Controller) restamp(ctx context.Context, o stamped) error {
	_, err := c.Metadata.Resource(o.resource).Namespace(o.object.Namespace).
		Patch(ctx, o.object.Name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("having %s %s stamped: %w", o.kind.Kind, o.object.Name, err)
	}
	return nil
}

// sortStamped puts what rules the namespace first, then the Namespace, then autoscalers: that they
// wait somewhere says that what they scale is not scaled there yet.
func sortStamped(list []stamped) {
	slices.SortStableFunc(list, func(a, b stamped) int { return cmp.Compare(a.rank(), b.rank()) })
}

func (s stamped) rank() int {
	switch {
	case s.kind.Role == workload.Ruling:
		return 0
	case s.kind.Role == workload.Container:
		return 1
	case stamp.IsAutoscaler(s.kind):
		return 2
	}
	return 3
}

// position is where an object is in the order in which those of a unit are stamped.
type position struct {
	rank, kind int
	name       string
}

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.rank, other.rank), cmp.Compare(p.kind, other.kind), cmp.Compare(p.name, other.name))
}

// round is what has objects of a unit stamped, look after look.
type round struct {
	unit controller.Request
	step string
}

// restampSome has objects stamped in their order, maxStamped of them, and says when to go on behind these: who has
// thousands in a unit does not keep a worker from the units of others. What cannot be stamped does not keep what is behind
// it: a round that has come to its end begins anew.
func (c *Controller) restampSome(ctx context.Context, r round, list []stamped) (controller.Result, error) {
	kinds := map[schema.GroupVersionResource]int{}
	for i, kind := range workload.In(c.Kinds, r.unit.Cluster).Kinds() {
		kinds[kind.GroupVersionResource()] = i
	}
	at := func(s stamped) position { return position{s.rank(), kinds[s.resource], s.object.Name} }
	slices.SortFunc(list, func(a, b stamped) int { return at(a).compare(at(b)) })
	from := 0
	if last, ok := c.stampedTo.Get(r); ok {
		from = max(0, slices.IndexFunc(list, func(s stamped) bool { return at(s).compare(last.(position)) > 0 }))
	}
	end := min(from+maxStamped, len(list))
	var errs []error
	for _, o := range list[from:end] {
		if err := c.restamp(ctx, o); err != nil {
			errs = append(errs, err)
		}
	}
	if end == len(list) {
		c.stampedTo.Remove(r)
		return controller.Result{}, errors.Join(errs...)
	}
	if len(errs) > 0 {
		klog.FromContext(ctx).Error(errs[0], "Objects were not stamped, will try again once the others are", "objects", len(errs))
	}
	c.stampedTo.Add(r, at(list[end-1]), retryInterval)
	return controller.Result{RequeueAfter: batchDelay}, nil
}
