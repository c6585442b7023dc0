package cli

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func newCordonCommand(o *options, cordon bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uncordon NAME...",
		Short: "Let physical clusters receive new placements again",
		Example: templates.Examples(`
			kubectl atoll uncordon east`),
	}
	verb := "uncordoned"
	if cordon {
		verb, cmd.Use, cmd.Short = "cordoned", "cordon NAME...", "Let physical clusters keep what they have, and receive nothing new"
		cmd.Example = templates.Examples(`
			kubectl atoll cordon east`)
	}
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = completion.ResourceNameCompletionFunc(o.factory, physicalClusters)
	change := newChangeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := change.complete(cmd); err != nil {
			return err
		}
		return o.changePhysicalClusters(cmd, names, change, func(pc *fleetv1alpha1.PhysicalCluster) (map[string]any, string, error) {
			if pc.Spec.Unschedulable == cordon {
				return nil, "already " + verb, nil
			}
			pc.Spec.Unschedulable = cordon
			return map[string]any{"unschedulable": cordon}, verb, nil
		})
	}
	return cmd
}

// changePhysicalClusters patches the spec of each physical cluster with what change
// returns; nil for nothing. After a conflict with another writer, as the server that writes
// the status is one, change is asked again about what is there now.
func (o *options) changePhysicalClusters(cmd *cobra.Command, names []string, flags *changeFlags,
	change func(*fleetv1alpha1.PhysicalCluster) (spec map[string]any, word string, err error)) error {
	ctx, c, err := o.inRoot(cmd)
	if err != nil {
		return err
	}
	client := c.atoll.FleetV1alpha1().PhysicalClusters()
	var errs []error
	for _, name := range names {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			pc, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			version := pc.ResourceVersion
			spec, word, err := change(pc)
			if err != nil {
				return err
			}
			if spec != nil && flags.dryRun != cmdutil.DryRunClient {
				patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "spec": spec})
				if err != nil {
					return err
				}
				pc, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager, DryRun: flags.serverDryRun()})
				if err != nil {
					return err
				}
			}
			return flags.done(o, pc, word)
		})
		errs = append(errs, err)
	}
	return joined(errs)
}

// joined is the only error as it is, so that it is printed as kubectl prints it.
func joined(errs []error) error {
	var some []error
	for _, err := range errs {
		if err != nil {
			some = append(some, err)
		}
	}
	if len(some) == 1 {
		return some[0]
	}
	return errors.Join(some...)
}
