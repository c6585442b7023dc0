package attack

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/reserve"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// claimedNamespaces, with pods for which nobody honest has room, are placed while the syncer claims to have all the room of the world.
const claimedNamespaces = 6

var claims = Attack{
	Name: "a syncer that claims room draws no more namespaces than its bounds say",
	Fence: func(ctx context.Context, w *World) error {
		drawn, err := w.draw(ctx, "1")
		if err != nil {
			return err
		}
		if drawn > 0 {
			return fmt.Errorf("%d of %d new namespaces went there", drawn, claimedNamespaces)
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		drawn, err := w.draw(ctx, "")
		if err != nil {
			return err
		}
		if drawn == 0 {
			return errors.New("no namespace was drawn")
		}
		return nil
	},
}

// draw claims room and returns how many new namespaces go to the hostile physical cluster.
func (w *World) draw(ctx context.Context, bound string) (drawn int, err error) {
	root := scope.WithCluster(ctx, scope.Root)
	if _, err := w.placed(ctx); err != nil { // one that counts
		return 0, err
	}
	var bounds corev1.ResourceList
	if bound != "" {
		bounds = corev1.ResourceList{fleetv1alpha1.BoundNamespaces: resource.MustParse(bound)}
	}
	if err := w.bound(root, bounds); err != nil {
		return 0, err
	}
	if err := w.claim(w.own(ctx, scope.Root), "1000000", "1000Ti"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.claim(w.own(ctx, scope.Root), "4", "8Gi"), w.bound(root, nil)) }()
	if ctx, err = w.cluster(ctx); err != nil {
		return 0, err
	}
	for i := range claimedNamespaces {
		name := fmt.Sprint("n", i)
		if err := w.place(ctx, name, nil, "10k"); err != nil {
			return 0, err
		}
		there, err := w.isPlaced(ctx, name)
		if err != nil {
			return 0, err
		}
		if there {
			drawn++
		}
	}
	return drawn, nil
}

// hidden is how long after what came first more comes: its reservations have ended then, and a physical
// cluster has reported its pods.
const hidden = reserve.For + 5*time.Second

var hides = Attack{
	Name: "a syncer that reports no pod draws no more of them than its bounds say",
	Real: true, // it waits
	Fence: func(ctx context.Context, w *World) error {
		first, more, err := w.hide(ctx, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("20Ti")})
		if err == nil && (first != 2 || more > 0) {
			err = fmt.Errorf("%d namespaces went there, and %d more when it had reported nothing; there is room for 2", first, more)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error {
		first, more, err := w.hide(ctx, nil)
		if err == nil && (first != 3 || more != 3) {
			err = fmt.Errorf("%d namespaces went there, and %d more, of 3 each", first, more)
		}
		return err
	},
}

// hide claims room and no use of it, and returns how many of three new namespaces go to the hostile
// physical cluster at first, and of three more when it should have reported their pods.
func (w *World) hide(ctx context.Context, bounds corev1.ResourceList) (first, more int, err error) {
	root := scope.WithCluster(ctx, scope.Root)
	if err := w.bound(root, bounds); err != nil {
		return 0, 0, err
	}
	if err := w.claim(w.own(ctx, scope.Root), "1000000", "1000Ti"); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, w.claim(w.own(ctx, scope.Root), "4", "8Gi"), w.bound(root, nil)) }()
	if ctx, err = w.cluster(ctx); err != nil {
		return 0, 0, err
	}
	come := func(kind string) (n int, err error) {
		for i := range 3 {
			name := fmt.Sprint(kind, i)
			if err := w.namespace(ctx, name, nil); err != nil {
				return n, err
			}
			if err := w.request(ctx, name, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Ti")}); err != nil {
				return n, err
			}
			there, err := w.isPlaced(ctx, name)
			if err != nil {
				return n, err
			}
			if there {
				n++
			}
		}
		return n, nil
	}
	if first, err = come("first"); err != nil {
		return first, 0, err
	}
	select {
	case <-ctx.Done():
		return first, 0, ctx.Err()
	case <-time.After(hidden):
	}
	more, err = come("more")
	return first, more, err
}

// bound sets what may be on the hostile physical cluster; nil: anything.
func (w *World) bound(root context.Context, bounds corev1.ResourceList) error {
	client := w.admin.atoll.FleetV1alpha1().PhysicalClusters()
	return eventually(root, "setting bounds", func() error {
		pc, err := client.Get(root, Mallory, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pc.Spec.Bounds = bounds
		_, err = client.Update(root, pc, metav1.UpdateOptions{})
		return err
	})
}
