package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func newPolicyCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Test placement policies before they are applied",
		Run:   func(cmd *cobra.Command, _ []string) { _ = cmd.Help() },
	}
	cmd.AddCommand(newPolicyTestCommand(o))
	return cmd
}

func newPolicyTestCommand(o *options) *cobra.Command {
	w := &whatIf{options: o}
	cmd := &cobra.Command{
		Use:   "test -f FILE",
		Short: "Check policies, and show where the namespaces that they select would go",
		Long: templates.LongDesc(`Check policies, and show where the namespaces that they select would go.

			The server checks each policy as if it were applied (dry run), and answers for each namespace that it selects, or
			that the version which is there selects (PlacementReview). Nothing is stored. The exit code is not 0 if a
			policy is not valid.`),
		Example: templates.Examples(`
			kubectl atoll policy test -f policy.yaml

			# As if nothing were placed yet
			kubectl atoll policy test -f policy.yaml --anew`),
		Args: cobra.NoArgs,
	}
	w.addFlags(cmd)
	w.all = true
	cmdutil.CheckErr(cmd.Flags().MarkHidden("all-namespaces"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return w.runPolicyTest(cmd) }
	return cmd
}

func (w *whatIf) runPolicyTest(cmd *cobra.Command) error {
	files := w.files.ToOptions()
	if len(files.Filenames) == 0 {
		return errors.New("name the policy: -f FILE")
	}
	ctx, c, err := w.connectAnywhere(cmd)
	if err != nil {
		return err
	}
	policies, err := w.readPolicies(ctx, c, &files)
	if err != nil {
		return err
	}
	var reviews []runtime.Object
	for i, policy := range policies {
		questions, err := c.questions(ctx, area{namespace: policy.namespace, unplaced: true, also: policy.unit()}, func(at place) *placementv1alpha1.PlacementReviewSpec {
			spec := policy.suppose(at)
			if spec != nil {
				spec.Anew = w.anew
			}
			return spec
		})
		if err != nil {
			return err
		}
		got, err := c.ask(ctx, w.ErrOut, questions)
		if err != nil {
			return err
		}
		if reviews = append(reviews, got.reviews...); !w.print.forPeople() {
			continue
		}
		if i > 0 {
			fmt.Fprintln(w.Out)
		}
		fmt.Fprintf(w.Out, "%s is valid and would be %s.\n\n", policy, policy.verb())
		if err := w.print.answers(w.options, got, c.cluster == scope.Root); err != nil {
			return err
		}
	}
	if w.print.forPeople() {
		return nil
	}
	return w.print.print(w.options, nil, reviews...)
}
