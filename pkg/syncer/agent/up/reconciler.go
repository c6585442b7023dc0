package up

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

const (
	// shortDelay is when something is looked at again that no event announces.
	shortDelay = 100 * time.Millisecond
	// silenceDelay is when a server is asked again at the latest that did not answer, and how often what
	// is below is looked at that the watch lacks.
	silenceDelay = 5 * time.Second
	// undoneDelay is when a mirror that was let go of is looked at again. A control plane that was restored from a backup of
	// a moment before has it as the watch showed it last, and then no event says that it is there.
	undoneDelay = 6 * time.Second
)

// Config is what a Reconciler works with.
type Config struct {
	View *view.View
	Up   connection.ControlPlane
	Down connection.Physical
	// Permits is what the physical cluster permits now; default: nothing beyond the
	// default.
	Permits func() boundary.Permits
	// Observe decides; default syncer.Observe.
	Observe func(syncer.Observation) []syncer.Action
	// Confirm returns an error unless who answers below is the cluster that is meant:
	// it is asked before something is taken to be gone.
	Confirm func(context.Context) error
	// Mirrored is called when the mirror of an object below was made: what that owns may
	// have waited for it.
	Mirrored func(view.MirrorKey)
}

// Reconciler keeps mirrors.
type Reconciler struct {
	Config
	started time.Time
	// unsent is when what was not sent is tried again: soon at first. A syncer that stood still has no Lease for a
	// moment, and mirrors of what has ended meanwhile are to go with the rest.
	unsent workqueue.TypedRateLimiter[view.MirrorKey]
}

// New makes a Reconciler.
func New(c Config) *Reconciler {
	if c.Observe == nil {
		c.Observe = syncer.Observe
	}
	if c.Permits == nil {
		c.Permits = func() boundary.Permits { return boundary.Permits{} }
	}
	return &Reconciler{Config: c, started: time.Now(), unsent: workqueue.NewTypedItemExponentialFailureRateLimiter[view.MirrorKey](shortDelay, silenceDelay)}
}

// Reconcile brings one object that controllers below made up to date in its
// logical cluster.
func (r *Reconciler) Reconcile(ctx context.Context, key view.MirrorKey) (controller.Result, error) {
	var after time.Duration
	v, err := r.read(ctx, key)
	if err == nil && v != nil {
		ctx = scope.WithCluster(ctx, v.cluster)
		after, err = r.act(ctx, v, r.Observe(v.Observation))
		if v.unwatched {
			after = max(after, silenceDelay)
		}
	}
	switch {
	case syncer.IsSilence(err):
		klog.FromContext(ctx).V(2).Info("No answer, will try again", "err", err)
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return controller.Result{RequeueAfter: silenceDelay}, nil // it has too much to do, or is not up
		}
		return controller.Result{RequeueAfter: r.unsent.When(key)}, nil
	case err != nil:
		return controller.Result{}, err
	}
	r.unsent.Forget(key)
	if after == 0 {
		after = r.View.WrittenMirrors.Outstanding(key)
	}
	return controller.Result{RequeueAfter: after}, nil
}
