package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/edit"
)

func newTaintCommand(o *options) *cobra.Command {
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "taint NAME... KEY=VALUE:EFFECT|KEY:EFFECT|KEY[:EFFECT]-...",
		Short: "Put taints on physical clusters, or take them off",
		Long: templates.LongDesc(`Put taints on physical clusters, or take them off, as kubectl taint does with nodes.

			The effects are NoSchedule, PreferNoSchedule and NoExecute. A policy tolerates taints for the namespaces that it selects.`),
		Example: templates.Examples(`
			# Keep away from east whoever does not tolerate it
			kubectl atoll taint east dedicated=gpu:NoSchedule

			# Change the value, and take the taint off again
			kubectl atoll taint east dedicated=batch:NoSchedule --overwrite
			kubectl atoll taint east dedicated-`),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, physicalClusters),
	}
	change := newChangeFlags(cmd)
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "Let a taint that is put on change the value of one that is there.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := change.complete(cmd); err != nil {
			return err
		}
		names, specs := edit.SplitTaints(args)
		if len(names) == 0 || len(specs) == 0 {
			return fmt.Errorf("name a physical cluster and a taint, as in: kubectl atoll taint NAME key=value:NoSchedule")
		}
		taints, err := edit.ParseTaints(specs)
		if err != nil {
			return err
		}
		taints.Overwrite = overwrite
		return o.changePhysicalClusters(cmd, names, change, func(pc *fleetv1alpha1.PhysicalCluster) (map[string]any, string, error) {
			after, err := taints.Apply(pc.Spec.Taints)
			if err != nil {
				return nil, "", fmt.Errorf("physical cluster %s: %w", pc.Name, err)
			}
			pc.Spec.Taints = after
			return map[string]any{"taints": after}, taints.Verb(), nil
		})
	}
	return cmd
}
