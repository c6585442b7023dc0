package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

// pollInterval is how often an object is read that is waited for.
const pollInterval = 500 * time.Millisecond

func newLogicalClusterDeleteCommand(o *options) *cobra.Command {
	var waits bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete logical clusters with everything in them",
		Long: templates.LongDesc(`Delete logical clusters with everything in them.

			It waits until the last copy is gone from the physical clusters, and says what is left if that takes longer than --timeout.`),
		Example: templates.Examples(`
			kubectl atoll lc delete shop`),
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, logicalClusters),
	}
	change := newChangeFlags(cmd)
	cmd.Flags().BoolVar(&waits, "wait", true, "Wait until they are gone.")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "How long to wait for each.")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := change.complete(cmd); err != nil {
			return err
		}
		ctx, c, err := o.inRoot(cmd)
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range names {
			errs = append(errs, o.deleteLogicalCluster(ctx, c, name, change, waits, timeout))
		}
		return joined(errs)
	}
	return cmd
}

func (o *options) deleteLogicalCluster(ctx context.Context, c *connection, name string, change *changeFlags, waits bool, timeout time.Duration) error {
	client := c.atoll.TenancyV1alpha1().LogicalClusters()
	lc, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if change.dryRun != cmdutil.DryRunClient {
		err := client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(lc.UID)), DryRun: change.serverDryRun()})
		if err != nil {
			return err
		}
	}
	if err := change.done(o, lc, "deleted"); err != nil {
		return err
	}
	if !waits || change.dryRun != cmdutil.DryRunNone {
		return nil
	}
	last := lc
	err = until(ctx, timeout, func(ctx context.Context) (bool, error) {
		found, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && found.UID != lc.UID {
			return true, nil
		}
		if err == nil {
			last = found
		}
		return false, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("logical cluster %s is not gone after %s, and goes on: %s", name, timeout, content(last))
	}
	return err
}

// content says what is left in a logical cluster that goes.
func content(lc *tenancyv1alpha1.LogicalCluster) string {
	for _, condition := range lc.Status.Conditions {
		if condition.Status == metav1.ConditionFalse && condition.Message != "" {
			return condition.Message
		}
	}
	return "kubectl get logicalcluster " + lc.Name + " -o yaml says what is left"
}

// until polls until done, or returns context.DeadlineExceeded after the timeout.
func until(ctx context.Context, timeout time.Duration, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(context.Context) (bool, error) {
		// A question that begins before the timeout may end after it: cut short, it would
		// fail with an error of its own.
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return done(ctx)
	})
}
