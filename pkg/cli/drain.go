package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
)

// drain is the command that empties a physical cluster.
type drain struct {
	*options
	print                 *printFlags
	dryRun, watch, cancel bool
	timeout, deadline     time.Duration
}

func newDrainCommand(o *options) *cobra.Command {
	d := &drain{options: o}
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Move everything off a physical cluster",
		Long: templates.LongDesc(`Move everything off a physical cluster.

			It sets spec.drain.requested of the PhysicalCluster; the server moves what is there, and what has nowhere to go stays and
			is named in the condition Drained. The exit code is 0 only when that is True: when nothing of ours is left there.
			--dry-run shows what would go where, and fails if something has nowhere to go.`),
		Example: templates.Examples(`
			kubectl atoll drain east --dry-run
			kubectl atoll drain east --watch

			# What has not begun to leave in two hours stays
			kubectl atoll drain east --deadline 2h --watch

			# What has not begun to leave stays
			kubectl atoll drain east --cancel`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, physicalClusters),
	}
	d.print = newPrintFlags(cmd)
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "Show what would go where, and change nothing.")
	cmd.Flags().BoolVarP(&d.watch, "watch", "w", false, "Wait until it is drained, and show how far it is.")
	cmd.Flags().BoolVar(&d.cancel, "cancel", false, "Take the request back.")
	cmd.Flags().DurationVar(&d.deadline, "deadline", 0, "For how long from now something may begin to leave. What has not begun by then stays. By default as spec.drain.deadline says.")
	cmd.Flags().DurationVar(&d.timeout, "timeout", time.Hour, "How long to watch.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := o.inRoot(cmd)
		if err != nil {
			return err
		}
		pc, err := c.atoll.FleetV1alpha1().PhysicalClusters().Get(ctx, args[0], metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.dryRun {
			return d.suppose(ctx, c, pc.Name)
		}
		return d.run(ctx, c, pc)
	}
	return cmd
}

// suppose shows what would become of what is placed there.
func (d *drain) suppose(ctx context.Context, c *connection, name string) error {
	questions, err := c.questions(ctx, area{}, func(*tenancyv1alpha1.LogicalCluster, *corev1.Namespace) *placementv1alpha1.PlacementReviewSpec {
		return &placementv1alpha1.PlacementReviewSpec{Without: []string{name}}
	})
	if err != nil {
		return err
	}
	got, err := c.ask(ctx, questions)
	if err != nil {
		return err
	}
	there := slices.DeleteFunc(got.outcomes, func(o report.Outcome) bool { return !slices.Contains(o.From, name) })
	if len(there) > 0 {
		if err := d.print.print(d.options, report.WhatIf(there, true)); err != nil {
			return err
		}
		fmt.Fprintln(d.Out)
	}
	fmt.Fprintln(d.Out, report.Count(there))
	if stays := report.Stays(there); stays > 0 {
		return fmt.Errorf("%s would not become empty: %d of the namespaces on it cannot move", name, stays)
	}
	return nil
}

// run writes or takes back the request, and follows it.
func (d *drain) run(ctx context.Context, c *connection, pc *fleetv1alpha1.PhysicalCluster) error {
	word := "draining"
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"drain":{"requested":true}}}`, pc.UID)
	if d.deadline > 0 {
		deadline := time.Now().Add(d.deadline).UTC().Format(time.RFC3339)
		word = "draining until " + deadline
		patch = fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"drain":{"requested":true,"deadline":%q}}}`, pc.UID, deadline)
	}
	if d.cancel {
		word, patch = "not drained any more", fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"drain":null}}`, pc.UID)
	}
	if _, err := c.atoll.FleetV1alpha1().PhysicalClusters().Patch(ctx, pc.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "physicalcluster.fleet.atoll.dev/%s %s\n", pc.Name, word)
	if d.cancel {
		return nil
	}
	timeout := d.timeout
	if !d.watch {
		timeout = 0 // what it says now
	}
	return d.follow(ctx, c, pc.Name, timeout)
}

// follow shows how far the drain is until nothing is left.
func (d *drain) follow(ctx context.Context, c *connection, name string, timeout time.Duration) error {
	began, line := report.Usage{}, ""
	var last *fleetv1alpha1.PhysicalCluster
	look := func(ctx context.Context) (bool, error) {
		pc, err := c.atoll.FleetV1alpha1().PhysicalClusters().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		usages, err := c.usages(ctx)
		if err != nil {
			return false, err
		}
		left := usages[name]
		began = report.Usage{Placements: max(began.Placements, left.Placements), Copies: max(began.Copies, left.Copies)}
		about := time.Duration(0)
		if pc.Status.Drain != nil {
			about = time.Duration(pc.Status.Drain.EstimatedSeconds) * time.Second
		}
		if now := report.Progress(began, left, about); now != line {
			fmt.Fprintln(d.Out, now)
			line = now
		}
		last = pc
		if !pc.Spec.Drain.Requested {
			return false, errors.New("the drain was canceled by somebody")
		}
		drained := apimeta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionDrained)
		if drained != nil && drained.ObservedGeneration == pc.Generation && drained.Reason == fleetv1alpha1.ReasonDeadlineExceeded {
			return false, errors.New(drained.Message)
		}
		return drained != nil && drained.Status == metav1.ConditionTrue, nil
	}
	done, err := look(ctx)
	if err == nil && !done && timeout > 0 {
		err = until(ctx, timeout, look)
		done = err == nil
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), err == nil && !done:
		return fmt.Errorf("%s is not drained, and the drain goes on (--watch follows it): %s", name, conditionText(last.Status.Conditions, fleetv1alpha1.ConditionDrained))
	case err != nil:
		return err
	}
	fmt.Fprintf(d.Out, "%s is drained: %s\n", name, apimeta.FindStatusCondition(last.Status.Conditions, fleetv1alpha1.ConditionDrained).Message)
	return nil
}
