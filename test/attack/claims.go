package attack

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
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
	if err := w.bound(root, bound); err != nil {
		return 0, err
	}
	if err := w.claim(w.own(ctx, scope.Root), "1000000", "1000Ti"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.claim(w.own(ctx, scope.Root), "4", "8Gi"), w.bound(root, "")) }()
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

// bound sets how many namespaces may be on the hostile physical cluster; none if empty.
func (w *World) bound(root context.Context, namespaces string) error {
	client := w.admin.atoll.FleetV1alpha1().PhysicalClusters()
	return eventually(root, "setting bounds", func() error {
		pc, err := client.Get(root, Mallory, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pc.Spec.Bounds = nil; namespaces != "" {
			pc.Spec.Bounds = corev1.ResourceList{fleetv1alpha1.BoundNamespaces: resource.MustParse(namespaces)}
		}
		_, err = client.Update(root, pc, metav1.UpdateOptions{})
		return err
	})
}
