package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
)

func newExplainCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [NAMESPACE]",
		Short: "Explain why a namespace is where it is, and why it is not elsewhere",
		Long: templates.LongDesc(`Explain why a namespace is where it is, and why it is not elsewhere.

			That is what the Placement says. For a namespace that is not placed yet, the server is asked where it would go
			(PlacementReview).`),
		Example: templates.Examples(`
			kubectl atoll explain web`),
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
		if len(args) == 1 {
			namespace = args[0]
		}
		placement, err := c.atoll.PlacementV1alpha1().Placements(namespace).Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
		if err == nil {
			return print.explain(o, report.ExplainPlacement(placement), placement)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		review, err := c.review(ctx, namespace, placementv1alpha1.PlacementReviewSpec{})
		if err != nil {
			return err
		}
		return print.explain(o, report.ExplainReview(namespace, review.Status), review)
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
