package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// drain is the command that empties a physical cluster.
type drain struct {
	*options
	print                 *printFlags
	dryRun, watch, cancel bool
	selector              string
	timeout, deadline     time.Duration
}

func newDrainCommand(o *options) *cobra.Command {
	d := &drain{options: o}
	cmd := &cobra.Command{
		Use:   "drain NAME | -l SELECTOR",
		Short: "Move everything off a physical cluster",
		Long: templates.LongDesc(`Move everything off a physical cluster.

			It sets spec.drain.requested of the PhysicalCluster; the server moves what is there, and what has nowhere to go stays and
			is named in the condition Drained. The exit code is 0 only when that is True: when nothing of ours is left there.
			--dry-run shows what would go where, one after the other as they would begin, each with what those before it leave
			free; it fails if something has nowhere to go or cannot move.`),
		Example: templates.Examples(`
			kubectl atoll drain east --dry-run
			kubectl atoll drain east --watch

			# What has not begun to leave in two hours stays
			kubectl atoll drain east --deadline 2h --watch

			# All of a zone
			kubectl atoll drain -l topology.kubernetes.io/zone=a --dry-run

			# What has not begun to leave stays
			kubectl atoll drain east --cancel`),
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, physicalClusters),
	}
	d.print = newPrintFlags(cmd)
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "Show what would go where, and change nothing.")
	cmd.Flags().BoolVarP(&d.watch, "watch", "w", false, "Wait until it is drained, and show how far it is.")
	cmd.Flags().BoolVar(&d.cancel, "cancel", false, "Take the request back.")
	cmd.Flags().DurationVar(&d.deadline, "deadline", 0, "For how long from now something may begin to leave. What has not begun by then stays. By default as spec.drain.deadline says.")
	cmd.Flags().StringVarP(&d.selector, "selector", "l", "", "The labels of the physical clusters, in place of a name.")
	cmd.Flags().DurationVar(&d.timeout, "timeout", time.Hour, "How long to watch.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := o.inRoot(cmd)
		if err != nil {
			return err
		}
		if len(args) == 0 == (d.selector == "") {
			return errors.New("name a physical cluster, or select some with -l SELECTOR")
		}
		names, err := c.selected(ctx, args, d.selector)
		if err != nil {
			return err
		}
		var all []*fleetv1alpha1.PhysicalCluster
		for _, name := range names {
			pc, err := c.atoll.FleetV1alpha1().PhysicalClusters().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			all = append(all, pc)
		}
		if d.dryRun {
			return d.suppose(ctx, c, names)
		}
		return d.run(ctx, c, all)
	}
	return cmd
}

// suppose shows what would become of what is placed there.
func (d *drain) suppose(ctx context.Context, c *connection, names []string) error {
	questions, err := c.questions(ctx, area{}, func(at place) *placementv1alpha1.PlacementReviewSpec {
		if at.placement == nil || !slices.ContainsFunc(stamp.Decided(at.placement).Names(), func(on string) bool { return slices.Contains(names, on) }) {
			return nil
		}
		return &placementv1alpha1.PlacementReviewSpec{Drained: names}
	})
	if err != nil {
		return err
	}
	got, err := c.ask(ctx, d.ErrOut, questions)
	if err != nil {
		return err
	}
	if err := d.print.answers(d.options, got, true); err != nil {
		return err
	}
	if stays := report.Stays(got.outcomes); stays > 0 {
		return fmt.Errorf("%s would not become empty: %d of the %ss on it cannot move", strings.Join(names, ", "), stays, report.Noun(got.outcomes))
	}
	return nil
}

// run writes or takes back the request, and follows it.
func (d *drain) run(ctx context.Context, c *connection, all []*fleetv1alpha1.PhysicalCluster) error {
	word, drain := "draining", `{"requested":true}`
	if d.deadline > 0 {
		deadline := time.Now().Add(d.deadline).UTC().Format(time.RFC3339)
		word, drain = "draining until "+deadline, fmt.Sprintf(`{"requested":true,"deadline":%q}`, deadline)
	}
	if d.cancel {
		word, drain = "not drained any more", "null"
	}
	// What is there is counted before: some of it may have left by the first look.
	began, err := c.usages(ctx)
	if err != nil {
		return err
	}
	for _, pc := range all {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"drain":%s}}`, pc.UID, drain)
		if _, err := c.atoll.FleetV1alpha1().PhysicalClusters().Patch(ctx, pc.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
			return err
		}
		fmt.Fprintf(d.Out, "physicalcluster.fleet.atoll.dev/%s %s\n", pc.Name, word)
	}
	if d.cancel {
		return nil
	}
	var errs []error
	for ends := time.Now().Add(d.timeout); len(all) > 0; all = all[1:] {
		timeout := max(0, time.Until(ends))
		if !d.watch {
			timeout = 0 // what it says now
		}
		errs = append(errs, d.follow(ctx, c, all[0].Name, began[all[0].Name], timeout))
	}
	return joined(errs)
}

// follow shows how far the drain is until nothing is left of what was there when it began.
func (d *drain) follow(ctx context.Context, c *connection, name string, began report.Usage, timeout time.Duration) error {
	line := ""
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
