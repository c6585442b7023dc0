package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
)

const physicalClusters = "physicalclusters.fleet.atoll.dev"

func newClustersCommand(o *options) *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:     "clusters [NAME...]",
		Aliases: []string{"cluster", "pcs"},
		Short:   "List physical clusters: how they are, and what is placed on them",
		Example: templates.Examples(`
			# All physical clusters
			kubectl atoll clusters

			# With versions, labels and what is wrong
			kubectl atoll clusters -o wide

			# Those of a region
			kubectl atoll clusters -l topology.kubernetes.io/region=eu`),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, physicalClusters),
	}
	print := newPrintFlags(cmd)
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "Selector (label query) to filter on.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := o.inRoot(cmd)
		if err != nil {
			return err
		}
		client := c.atoll.FleetV1alpha1().PhysicalClusters()
		var list []fleetv1alpha1.PhysicalCluster
		for _, name := range args {
			found, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			list = append(list, *found)
		}
		if len(args) == 0 {
			all, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return err
			}
			list = all.Items
		}
		if !print.forPeople() {
			return print.print(o, nil, objectsOf(list)...)
		}
		if len(list) == 0 {
			fmt.Fprintln(o.ErrOut, "No physical clusters found. Register one with: kubectl atoll register NAME --physical-kubeconfig FILE")
			return nil
		}
		usages, err := c.usages(ctx)
		if apierrors.IsForbidden(err) {
			fmt.Fprintln(o.ErrOut, "Placements and copies are not counted: only a member of system:masters may list them in all logical clusters.")
		} else if err != nil {
			return err
		}
		return print.print(o, report.PhysicalClusters(list, usages, time.Now()))
	}
	return cmd
}
