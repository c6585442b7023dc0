package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
)

func newExplainCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [NAMESPACE | TYPE/NAME]",
		Short: "Explain why something is where it is, and why it is not elsewhere",
		Long: templates.LongDesc(`Explain why a namespace is where it is, and why it is not elsewhere.

			An object is where its unit is: its namespace, or what a PlacementPolicy selects with it. That is what the Placement says. For a namespace that is not placed yet, the server is asked where it would go
			(PlacementReview).`),
		Example: templates.Examples(`
			kubectl atoll explain web
			kubectl atoll explain deployment/web`),
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, "namespace"),
	}
	print := newPrintFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := o.inCluster(cmd)
		if err != nil {
			return err
		}
		namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		u := unit{namespace, placementv1alpha1.NamespaceUnit}
		if len(args) == 1 {
			if u, err = o.unitOf(ctx, c, args[0]); err != nil {
				return err
			}
		}
		placement, err := c.placement(ctx, u)
		if err == nil {
			return print.explain(o, report.ExplainPlacement(placement), placement)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		ask := placementv1alpha1.PlacementReviewSpec{}
		if !u.whole() {
			ask.Unit = u.name
		}
		review, err := c.review(ctx, u.namespace, ask)
		if err != nil {
			return err
		}
		return print.explain(o, report.ExplainReview(u.namespace, review.Status), review)
	}
	return cmd
}

func (p *printFlags) explain(o *options, e *report.Explanation, obj runtime.Object) error {
	if !p.forPeople() {
		return p.printObject(o, obj)
	}
	for _, line := range e.Lines {
		fmt.Fprintln(o.Out, line)
	}
	if len(e.Table.Rows) == 0 {
		return nil
	}
	fmt.Fprintln(o.Out)
	return p.print(o, e.Table)
}
