package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

func newRolloutCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "See, approve and take back changes that reach physical clusters in waves",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { _ = cmd.Help() },
	}
	cmd.AddCommand(newRolloutStatusCommand(o), newRolloutApproveCommand(o), newRolloutUndoCommand(o))
	return cmd
}

func newRolloutStatusCommand(o *options) *cobra.Command {
	var watch bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status NAMESPACE | TYPE/NAME",
		Short: "Show which physical clusters have a change, and what the others wait for",
		Example: templates.Examples(`
			kubectl atoll rollout status web
			kubectl atoll rollout status web --watch`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, "namespace"),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Wait until all waves have it.")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Hour, "How long to watch.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := o.inCluster(cmd)
		if err != nil {
			return err
		}
		u, err := o.unitOf(ctx, c, args[0])
		if err != nil {
			return err
		}
		last := ""
		show := func(ctx context.Context) (bool, error) {
			p, err := c.placement(ctx, u)
			if err != nil {
				return false, err
			}
			lines, done := report.Rollout(p)
			if text := strings.Join(lines, "\n"); text != last {
				fmt.Fprintln(o.Out, text)
				last = text
			}
			return done, nil
		}
		if !watch {
			_, err := show(ctx)
			return err
		}
		err = until(ctx, timeout, show)
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the change of %s has not reached all waves after %s, and goes on", u, timeout)
		}
		return err
	}
	return cmd
}

func newRolloutApproveCommand(o *options) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "approve NAMESPACE | TYPE/NAME",
		Short: "Let the next wave have the change that is under way",
		Long: templates.LongDesc(`Let the next wave have the change that is under way.

			It sets the annotation placement.atoll.dev/approve-rollout of the Namespace, or of the PlacementPolicy that selects the
			object, to the revision and the wave: another change, and the wave after that, are not approved by it.`),
		Example: templates.Examples(`
			kubectl atoll rollout approve web

			# What has it is not healthy, or has not soaked
			kubectl atoll rollout approve web --force`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, "namespace"),
	}
	change := newChangeFlags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "Also if what has the change is not healthy, or has not soaked.")
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
		p, err := c.placement(ctx, u)
		if err != nil {
			return err
		}
		value, err := report.Approve(p, force)
		if err != nil {
			return fmt.Errorf("%s: %w", u, err)
		}
		approved, err := o.order(ctx, c, u, placementv1alpha1.ApproveRolloutAnnotation, value, change)
		if err != nil {
			return err
		}
		return change.done(o, approved, "approved: "+value)
	}
	return cmd
}

func newRolloutUndoCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo NAMESPACE | TYPE/NAME",
		Short: "Take back the change that is under way",
		Long: templates.LongDesc(`Take back the change that is under way.

			It writes what the objects were before, which physical clusters of later waves have still; the number of replicas, labels and
			annotations stay as they are. To apply the files of before does the same.`),
		Example: templates.Examples(`
			kubectl atoll rollout undo web --dry-run=server
			kubectl atoll rollout undo web`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, "namespace"),
	}
	change := newChangeFlags(cmd)
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
		return o.undo(ctx, c, u, change)
	}
	return cmd
}

// undo writes the former content of what is under way in a unit; ConfigMaps and Secrets are in
// none, and those of the namespace count.
func (o *options) undo(ctx context.Context, c *connection, u unit, change *changeFlags) error {
	found := false
	var errs []error
	for _, kind := range o.kinds.Kinds() {
		if !kind.Staged {
			continue
		}
		client := c.dynamic.Resource(kind.GroupVersionResource()).Namespace(u.namespace)
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("reading %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			if !stamp.Staged(obj) || len(kind.Replicas)+len(kind.PodTemplate) > 0 && !slices.Contains(stamp.Units(obj), u.name) {
				continue
			}
			found = true
			former, err := stamp.WithFormer(kind, obj)
			if err == nil && change.dryRun != cmdutil.DryRunClient {
				former, err = client.Update(ctx, former, metav1.UpdateOptions{FieldManager: fieldManager, DryRun: change.serverDryRun()})
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", kind.Kind, obj.GetName(), err))
				continue
			}
			errs = append(errs, change.done(o, former, "taken back"))
		}
	}
	if !found {
		return fmt.Errorf("%s: nothing is under way", u)
	}
	return joined(errs)
}
