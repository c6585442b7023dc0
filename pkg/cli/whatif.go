package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// whatIf are the flags of commands that ask about namespaces.
type whatIf struct {
	*options
	print   *printFlags
	files   *genericclioptions.FileNameFlags
	all     bool
	anew    bool
	without []string
}

func (w *whatIf) addFlags(cmd *cobra.Command) {
	w.print = newPrintFlags(cmd)
	filenames, recursive := []string{}, false
	w.files = &genericclioptions.FileNameFlags{Usage: "with the policy to suppose.", Filenames: &filenames, Recursive: &recursive}
	w.files.AddFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&w.all, "all-namespaces", "A", false, "Ask about all namespaces; from root, of all logical clusters.")
	cmd.Flags().BoolVar(&w.anew, "anew", false, "As if nothing were placed yet: what is there counts for nothing.")
}

func newWhatIfCommand(o *options) *cobra.Command {
	w := &whatIf{options: o}
	cmd := &cobra.Command{
		Use:   "whatif [--without NAME] [-f FILE] [-n NAMESPACE | -A]",
		Short: "Show what would move if a physical cluster went or a policy changed",
		Long: templates.LongDesc(`Show what would move if a physical cluster went or a policy changed.

			The server answers with the code that places, for each namespace that is placed (PlacementReview); nothing is
			stored. In a logical cluster it is the namespace of the context, or -A; in root all of all logical clusters, or
			those called -n.`),
		Example: templates.Examples(`
			# What moves if east goes?
			kubectl atoll whatif --without east -A

			# What moves if this policy is applied?
			kubectl atoll whatif -f policy.yaml -A`),
		Args: cobra.NoArgs,
	}
	w.addFlags(cmd)
	cmd.Flags().StringSliceVar(&w.without, "without", nil, "A physical cluster that would be gone; may be repeated.")
	cmdutil.CheckErr(cmd.RegisterFlagCompletionFunc("without", completion.ResourceNameCompletionFunc(o.factory, physicalClusters)))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return w.runWhatIf(cmd) }
	return cmd
}

func (w *whatIf) runWhatIf(cmd *cobra.Command) error {
	files := w.files.ToOptions()
	if len(w.without) == 0 && len(files.Filenames) == 0 && !w.anew {
		return errors.New("say what to suppose: --without NAME, -f FILE, or --anew")
	}
	ctx, c, err := w.connectAnywhere(cmd)
	if err != nil {
		return err
	}
	if err := c.checkNames(ctx, w.without); err != nil {
		return err
	}
	var policy *supposedPolicy
	if len(files.Filenames) > 0 {
		policies, err := w.readPolicies(ctx, c, &files)
		if err != nil {
			return err
		}
		if len(policies) > 1 {
			return fmt.Errorf("one policy at a time can be supposed; -f names %d", len(policies))
		}
		policy = policies[0]
	}
	a, err := w.area(c)
	if err != nil {
		return err
	}
	questions, err := c.questions(ctx, a, func(lc *tenancyv1alpha1.LogicalCluster, ns *corev1.Namespace) *placementv1alpha1.PlacementReviewSpec {
		spec := &placementv1alpha1.PlacementReviewSpec{}
		if policy != nil {
			if spec = policy.suppose(lc, ns); spec == nil && len(w.without) == 0 {
				return nil // what it is not for stays as it is
			} else if spec == nil {
				spec = &placementv1alpha1.PlacementReviewSpec{}
			}
		}
		spec.Without, spec.Anew = w.without, w.anew
		return spec
	})
	if err != nil {
		return err
	}
	return w.answer(ctx, c, questions)
}

// connectAnywhere connects to root or to a logical cluster.
func (o *options) connectAnywhere(cmd *cobra.Command) (context.Context, *connection, error) {
	c, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	return scope.WithCluster(cmd.Context(), c.cluster), c, nil
}

// checkNames says which physical clusters do not exist: a review would take a wrong name
// for one that is gone already. Every logical cluster has them as Nodes.
func (c *connection) checkNames(ctx context.Context, names []string) error {
	for _, name := range names {
		_, err := c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return apierrors.NewNotFound(fleetv1alpha1.Resource("physicalclusters"), name)
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// area is what the flags say. In root there is no namespace of the context.
func (w *whatIf) area(c *connection) (area, error) {
	namespace, explicit, err := w.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return area{}, err
	}
	if w.all || c.cluster == scope.Root && !explicit {
		return area{}, nil
	}
	return area{namespace: namespace}, nil
}

// answer asks, and prints what came of it.
func (w *whatIf) answer(ctx context.Context, c *connection, questions []question) error {
	got, err := c.ask(ctx, questions)
	if err != nil {
		return err
	}
	if !w.print.forPeople() {
		return w.print.print(w.options, nil, got.reviews...)
	}
	if len(got.outcomes) > 0 {
		if err := w.print.print(w.options, report.WhatIf(got.outcomes, c.cluster == scope.Root)); err != nil {
			return err
		}
		fmt.Fprintln(w.Out)
	}
	fmt.Fprintln(w.Out, report.Count(got.outcomes))
	return nil
}
