package report

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// World is what a session depends on.
type World struct {
	ControlPlane string
	// APIs are the served resources, sorted.
	APIs []string
	// RuntimeClasses is a digest of the RuntimeClasses of the physical cluster; empty: not known.
	RuntimeClasses string
	// Classes are others of its classes.
	Classes boundary.Classes
	// Identity is that of the physical cluster if it is the one that is meant; else
	// it is empty.
	Identity types.UID
	// Forgotten: an admin gave the physical cluster up. Its copies count as gone,
	// and nothing that is said about it is heard.
	Forgotten bool
	// Tenancy is what an admin lets tenants do there.
	Tenancy fleetv1alpha1.Tenancy
	// Volumes is what an admin declared of the volumes of storage classes there.
	Volumes []fleetv1alpha1.ClassVolumes
	// Server is how pods there reach the control plane.
	Server syncer.Server
	// Names is the namespace there where names of logical clusters are answered; empty if
	// nobody offers to.
	Names string
	// Bounds are those of the PhysicalCluster.
	Bounds corev1.ResourceList
	// Admission says how the API server there asks about pods; nil if it does not.
	Admission *fleetv1alpha1.PodAdmission
}

// Serves says whether the physical cluster serves a kind.
func (w World) Serves(k workload.Kind) bool {
	_, ok := slices.BinarySearch(w.APIs, k.API())
	return ok
}

// Await returns the world as soon as it is known and there is something to do.
func (r *Reporter) Await(ctx context.Context) (World, error) {
	return r.until(ctx, func(w World) bool {
		return w.ControlPlane != "" && len(w.APIs) > 0 && w.Identity != "" && !w.Forgotten
	})
}

// Changed returns when it is another control plane or physical cluster, or one that was
// given up. What the physical cluster serves is no such change, see View.Follow.
func (r *Reporter) Changed(ctx context.Context, before World) {
	_, _ = r.until(ctx, func(w World) bool {
		return w.ControlPlane != before.ControlPlane || w.Forgotten != before.Forgotten || w.Identity != before.Identity
	})
}

// World returns what is known, and a channel that is closed once that is something else.
func (r *Reporter) World() (w World, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.world, r.known
}

// until waits for a world; the error is that ctx ended before.
func (r *Reporter) until(ctx context.Context, is func(World) bool) (World, error) {
	for {
		r.mu.Lock()
		w, known := r.world, r.known
		r.mu.Unlock()
		if is(w) {
			return w, nil
		}
		select {
		case <-ctx.Done():
			return World{}, ctx.Err()
		case <-known:
		}
	}
}

// learn keeps what is known, wakes who waits for it and reports whether it is news.
func (r *Reporter) learn(w World, failure *syncer.Failure) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = failure
	if len(w.APIs) == 0 {
		w.APIs, w.RuntimeClasses, w.Classes = r.world.APIs, r.world.RuntimeClasses, r.world.Classes // silence changes nothing
	}
	if equality.Semantic.DeepEqual(w, r.world) {
		return false
	}
	r.world = w
	close(r.known)
	r.known = make(chan struct{})
	return true
}
