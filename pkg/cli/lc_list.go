package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/atoll-dev/atoll/pkg/cli/report"
)

func newLogicalClusterListCommand(o *options) *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List logical clusters",
		Example: templates.Examples(`
			kubectl atoll lc list`),
		Args: cobra.NoArgs,
	}
	print := newPrintFlags(cmd)
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "Selector (label query) to filter on.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, c, err := o.inRoot(cmd)
		if err != nil {
			return err
		}
		list, err := c.atoll.TenancyV1alpha1().LogicalClusters().List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if print.forPeople() && len(list.Items) == 0 {
			fmt.Fprintln(o.ErrOut, "No logical clusters found. Create one with: kubectl atoll lc create NAME")
			return nil
		}
		return print.print(o, report.LogicalClusters(list.Items, time.Now()), objectsOf(list.Items)...)
	}
	return cmd
}
