package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
)

// physicalClusterNames are the physical clusters as every logical cluster has them.
const physicalClusterNames = "nodes"

func newMoveCommand(o *options) *cobra.Command {
	var to string
	var watch bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "move NAMESPACE | TYPE/NAME --to NAME",
		Short: "Move a namespace, or what a policy selects in it, to a physical cluster",
		Long: templates.LongDesc(`Move a namespace, or what a PlacementPolicy selects in it, to a physical cluster.

			It sets the annotation placement.atoll.dev/cluster of the Namespace, which also keeps it there. An object moves with all
			that the PlacementPolicy selects that selects it, and the annotation is set on that. The server moves it:
			what runs is removed from the old place only when it is available in the new one. --dry-run=server says what would be
			stopped before it is started. With --watch the exit code is 0 when the move is complete.`),
		Example: templates.Examples(`
			kubectl atoll move web --to west --dry-run=server
			kubectl atoll move web --to west --watch
			kubectl atoll move deployment/front --to west`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, "namespace"),
	}
	change := newChangeFlags(cmd)
	cmd.Flags().StringVar(&to, "to", "", "The physical cluster.")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Wait until the move is complete, and show how far it is.")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "How long to watch.")
	cmdutil.CheckErr(cmd.MarkFlagRequired("to"))
	cmdutil.CheckErr(cmd.RegisterFlagCompletionFunc("to", completion.ResourceNameCompletionFunc(o.factory, physicalClusterNames)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := change.complete(cmd); err != nil {
			return err
		}
		ctx, c, err := o.inCluster(cmd)
		if err != nil {
			return err
		}
		u, err := o.unitOf(ctx, c, args[0])
		if err != nil {
			return err
		}
		if strings.Contains(args[0], "/") && u.whole() {
			return fmt.Errorf("%s moves with its namespace: kubectl atoll move %s --to %s; to move it alone, make a PlacementPolicy with spec.objects that select it", args[0], u.namespace, to)
		}
		pinned, err := o.order(ctx, c, u, placementv1alpha1.PhysicalClusterAnnotation, to, change)
		if err != nil {
			return err
		}
		if err := change.done(o, pinned, "moves to "+to); err != nil {
			return err
		}
		if !watch || change.dryRun != cmdutil.DryRunNone {
			return nil
		}
		return o.watchMove(ctx, c, u, to, timeout)
	}
	return cmd
}

// order sets an annotation of what makes the unit.
func (o *options) order(ctx context.Context, c *connection, u unit, key, value string, change *changeFlags) (runtime.Object, error) {
	namespaces, policies := c.kube.CoreV1().Namespaces(), c.atoll.PlacementV1alpha1().PlacementPolicies(u.namespace)
	switch {
	case change.dryRun == cmdutil.DryRunClient && u.whole():
		return namespaces.Get(ctx, u.namespace, metav1.GetOptions{})
	case change.dryRun == cmdutil.DryRunClient:
		return policies.Get(ctx, u.name, metav1.GetOptions{})
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{key: value},
	}})
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager, DryRun: change.serverDryRun()}
	if u.whole() {
		return namespaces.Patch(ctx, u.namespace, types.MergePatchType, patch, options)
	}
	return policies.Patch(ctx, u.name, types.MergePatchType, patch, options)
}

// watchMove shows each step of a move until it is complete.
func (o *options) watchMove(ctx context.Context, c *connection, u unit, to string, timeout time.Duration) error {
	last := ""
	err := until(ctx, timeout, func(ctx context.Context) (bool, error) {
		p, err := c.placement(ctx, u)
		if apierrors.IsNotFound(err) {
			last = "nothing is placed in it yet: its first object that runs goes there"
			return true, nil
		}
		if err != nil {
			return false, err
		}
		line, done := report.Move(p, to)
		if line != last {
			fmt.Fprintln(o.Out, line)
			last = line
		}
		return done, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s is not on %s after %s, and the move goes on: %s", u, to, timeout, last)
	}
	return err
}
