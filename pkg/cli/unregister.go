package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// conditionRemovable, on a PhysicalCluster that is being deleted, says what holds it.
const conditionRemovable = "Removable"

func newUnregisterCommand(o *options) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "unregister NAME",
		Short: "Unregister a physical cluster on which nothing is placed",
		Long: templates.LongDesc(`Unregister a physical cluster on which nothing is placed.

			While something is placed there it refuses, and says what. Otherwise it cordons the physical cluster, deletes the
			PhysicalCluster, waits until that is gone, and deletes the Secret with its kubeconfig.`),
		Example: templates.Examples(`
			kubectl atoll unregister east`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, physicalClusters),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "How long to wait until it is gone.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := o.inRoot(cmd)
		if err != nil {
			return err
		}
		return o.unregister(ctx, c, args[0], timeout)
	}
	return cmd
}

func (o *options) unregister(ctx context.Context, c *connection, name string, timeout time.Duration) error {
	client := c.atoll.FleetV1alpha1().PhysicalClusters()
	pc, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := c.unused(ctx, pc); err != nil {
		return err
	}
	if !pc.Spec.Unschedulable {
		// From here on nothing new is placed there, so that what is asked next stays true.
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"unschedulable":true}}`, pc.UID)
		if pc, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "physicalcluster.fleet.atoll.dev/%s cordoned\n", name)
		if err := c.unused(ctx, pc); err != nil {
			return err
		}
	}
	if n := pc.Status.Orphans.Found; n > 0 {
		fmt.Fprintf(o.ErrOut, "Warning: %d objects with our mark that belong to nothing stay on it: kubectl get orphans\n", n)
	}
	if err := client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pc.UID))}); err != nil {
		return err
	}
	last := pc
	err = until(ctx, timeout, func(ctx context.Context) (bool, error) {
		found, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && found.UID != pc.UID {
			return true, nil
		}
		if err == nil {
			last = found
		}
		return false, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s is being deleted, and is not gone after %s: %s%s", name, timeout,
			conditionText(last.Status.Conditions, conditionRemovable), forgetIt(last))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "physicalcluster.fleet.atoll.dev/%s unregistered\n", name)
	return o.deleteSecret(ctx, c, pc)
}

// forgetIt is the way out for a physical cluster that does not answer any more.
func forgetIt(pc *fleetv1alpha1.PhysicalCluster) string {
	if apimeta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionReady) {
		return ""
	}
	return fmt.Sprintf(". If it is lost for good, say so, and its copies count as removed although nobody saw them go, and what is placed there starts elsewhere: "+
		"kubectl patch physicalcluster %s --type=merge -p '{\"spec\":{\"forget\":true}}'", pc.Name)
}

// unused refuses while a Placement or a Copy names the physical cluster, and says which.
func (c *connection) unused(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) error {
	all := scope.WithCluster(ctx, scope.Wildcard)
	var placed []string
	err := c.eachPlacement(all, metav1.NamespaceAll, func(p *placementv1alpha1.Placement) error {
		if p.Spec.Decision == nil {
			return nil
		}
		for _, target := range p.Spec.Decision.PhysicalClusters {
			if target.Name == pc.Name {
				placed = append(placed, logicalcluster.From(p).String()+"/"+p.Namespace)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for what is placed on %s: %w", pc.Name, err)
	}
	usages, err := c.usages(ctx)
	if err != nil {
		return fmt.Errorf("looking for what is on %s: %w", pc.Name, err)
	}
	u := usages[pc.Name]
	switch {
	case len(placed) > 0:
		return fmt.Errorf("%s is in use by %s (copies: %d): delete or move that first%s", pc.Name, list(placed, 10), u.Copies, forgetIt(pc))
	case u.Copies > 0:
		return fmt.Errorf("%s is in use by no namespace any more, but has copies still (%d), which are being removed: try again when they are gone%s", pc.Name, u.Copies, forgetIt(pc))
	}
	return nil
}

// deleteSecret removes the kubeconfig of one that is gone, if no other one has the same.
func (o *options) deleteSecret(ctx context.Context, c *connection, pc *fleetv1alpha1.PhysicalCluster) error {
	ref := pc.Spec.Connection.KubeconfigSecretRef
	if ref == nil {
		return nil
	}
	rest, err := c.atoll.FleetV1alpha1().PhysicalClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range rest.Items {
		if other := rest.Items[i].Spec.Connection.KubeconfigSecretRef; other != nil && *other == *ref {
			return nil
		}
	}
	err = c.kube.CoreV1().Secrets(ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting the Secret %s/%s with its kubeconfig: %w", ref.Namespace, ref.Name, err)
	}
	fmt.Fprintf(o.Out, "secret/%s deleted in namespace %s\n", ref.Name, ref.Namespace)
	return nil
}
