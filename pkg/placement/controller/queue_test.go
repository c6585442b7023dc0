package controller

import (
	"context"
	"fmt"
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// Thousands of units wait for a drain of thousands: what moves is looked at before nearly all of them, or no phase of a move
// would end.
func TestAUnitThatMovesDoesNotWaitBehindThoseThatDoNot(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	const waiting = 1000
	m, key := newMoves(), controller.Request{Cluster: "shop", Namespace: "moves", Name: "moves"}
	m.set(key, &placementv1alpha1.Transition{To: []string{"west"}})
	before := 0
	q := newQueue(m, 1, func(_ context.Context, r controller.Request) (controller.Result, error) {
		if r == key {
			cancel()
		} else if ctx.Err() == nil {
			before++
		}
		return controller.Result{}, nil
	})
	for i := range waiting {
		name := fmt.Sprintf("waits-%d", i)
		q.Enqueue(controller.Request{Cluster: "shop", Namespace: name, Name: name})
	}
	q.Enqueue(key)
	q.Run(ctx)
	if before > 1 {
		t.Errorf("%d of %d units that wait were looked at before the one that moves", before, waiting)
	}
}
