package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// rings are objects that control each other. Nothing makes such, and whoever follows controllers to
// the last one never comes to it.
var rings = Attack{
	Name: "a physical cluster that mirrors pods which control each other keeps what leaves it, and the server goes on",
	Real: true, // it goes to another physical cluster
	Fence: func(ctx context.Context, w *World) error {
		return w.leavesWithClaim(ctx, true, placementv1alpha1.TransitionRemoving, "2 objects are not gone from "+Mallory)
	},
	// Without them it leaves.
	Control: func(ctx context.Context, w *World) error {
		return w.leavesWithClaim(ctx, false, placementv1alpha1.TransitionClearing, "")
	},
}

// leavesWithClaim has a namespace with a claim leave the hostile physical cluster, whose syncer mirrors two pods, each of which
// is controlled by the other, if there is to be a ring, until it is in a phase and says what it waits for.
func (w *World) leavesWithClaim(ctx context.Context, ring bool, phase placementv1alpha1.TransitionPhase, says string) (err error) {
	declare := func(volumes string) error {
		var errs []error
		for _, name := range w.all() {
			_, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Patch(scope.WithCluster(context.WithoutCancel(ctx), scope.Root), name, types.MergePatchType, []byte(`{"spec":{"volumes":`+volumes+`}}`), metav1.PatchOptions{})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	defer func() { err = errors.Join(err, declare("null")) }()
	if err := declare(`[{"storageClass":"standard","strategy":"Shared","backend":"san","driver":"disks.example.com"}]`); err != nil {
		return err
	}
	ctx, err = w.placed(ctx)
	if err != nil {
		return err
	}
	claim := claimOf("data")
	claim.Spec.StorageClassName = ptr.To("standard")
	if claim, err = w.admin.kube.CoreV1().PersistentVolumeClaims("web").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a claim: %w", err)
	}
	record := w.recordOf(claim, volumeWith(func(v *placementv1alpha1.CopyVolume) {
		v.Source.StorageClass, v.Source.Handle = "standard", string(claim.UID)
	}))
	record.Status.State = placementv1alpha1.CopySynced
	if _, err := w.mallory.atoll.PlacementV1alpha1().Copies("web").Create(withTarget(ctx), record, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("recording a volume: %w", err)
	}
	if ring {
		if err := w.plantRing(ctx); err != nil {
			return err
		}
	}
	patch := `{"metadata":{"annotations":{"` + placementv1alpha1.PhysicalClusterAnnotation + `":"east"}}}`
	if _, err := w.admin.kube.CoreV1().Namespaces().Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("moving: %w", err)
	}
	said := 0
	return eventually(ctx, "the move", func() error {
		if err := w.acknowledge(ctx, false); err != nil { // what is in a Namespace is gone with it
			return err
		}
		p, err := w.admin.atoll.PlacementV1alpha1().Placements("web").Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Spec.Transition == nil {
			return errors.New("it has not begun, or is over")
		}
		if p.Spec.Transition.Phase == placementv1alpha1.TransitionRemoving {
			if err := w.release(ctx, record.Name); err != nil {
				return err
			}
		}
		moving := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
		if moving == nil || p.Spec.Transition.Phase != phase || !strings.Contains(moving.Message, says) {
			said = 0
			return fmt.Errorf("it is in the phase %q, and %+v", p.Spec.Transition.Phase, moving)
		}
		if said++; said < 20 {
			return fmt.Errorf("it says so %d times: %s", said, moving.Message)
		}
		return nil
	})
}

// release says that a volume is not used any more.
func (w *World) release(ctx context.Context, record string) error {
	copies := w.mallory.atoll.PlacementV1alpha1().Copies("web")
	is, err := copies.Get(withTarget(ctx), record, metav1.GetOptions{})
	if err != nil || is.Status.Volume.Released {
		return err
	}
	is.Status.Volume.Released = true
	_, err = copies.Update(withTarget(ctx), is, metav1.UpdateOptions{})
	return err
}

// all are the physical clusters.
func (w *World) all() []string {
	names := []string{Mallory}
	for name := range w.Physical {
		names = append(names, name)
	}
	return names
}

// plantRing mirrors two pods that control each other, as the syncer.
func (w *World) plantRing(ctx context.Context) error {
	pods := w.mallory.kube.CoreV1().Pods("web")
	var made []*corev1.Pod
	for _, name := range []string{"one", "two"} {
		p, err := pods.Create(withTarget(ctx), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{placementv1alpha1.UIDAnnotation: name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("mirroring a pod: %w", err)
		}
		made = append(made, p)
	}
	for i, p := range made {
		other := made[1-i]
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: other.Name, UID: other.UID, Controller: ptr.To(true)}}
		if _, err := pods.Update(withTarget(ctx), p, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("linking a pod: %w", err)
		}
	}
	return nil
}
