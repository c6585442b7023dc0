package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// whatIf are the flags of commands that ask where units would be.
type whatIf struct {
	*options
	print   *printFlags
	files   *genericclioptions.FileNameFlags
	all     bool
	anew    bool
	without []string
	// selector selects more that would be gone, by their labels.
	selector string
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
		Use:   "whatif [--without NAME | -l SELECTOR] [-f FILE] [-n NAMESPACE | -A]",
		Short: "Show what would move if a physical cluster went or a policy changed",
		Long: templates.LongDesc(`Show what would move if a physical cluster went or a policy changed.

			The server answers with the code that places, for each unit that is placed (PlacementReview): a namespace, or
			NAMESPACE/POLICY for what a PlacementPolicy selects in it. Each answer counts as taken what those before it take;
			nothing is stored. In a logical cluster it is the namespace of the context, or -A; in root all of all logical
			clusters, or those called -n.`),
		Example: templates.Examples(`
			# What moves if east goes?
			kubectl atoll whatif --without east -A

			# What moves if a zone goes?
			kubectl atoll whatif -l topology.kubernetes.io/zone=a -A

			# What moves if this policy is applied?
			kubectl atoll whatif -f policy.yaml -A`),
		Args: cobra.NoArgs,
	}
	w.addFlags(cmd)
	cmd.Flags().StringSliceVar(&w.without, "without", nil, "A physical cluster that would be gone; may be repeated.")
	cmd.Flags().StringVarP(&w.selector, "selector", "l", "", "The labels of physical clusters that would be gone.")
	cmdutil.CheckErr(cmd.RegisterFlagCompletionFunc("without", completion.ResourceNameCompletionFunc(o.factory, physicalClusters)))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return w.runWhatIf(cmd) }
	return cmd
}

func (w *whatIf) runWhatIf(cmd *cobra.Command) error {
	files := w.files.ToOptions()
	if len(w.without) == 0 && w.selector == "" && len(files.Filenames) == 0 && !w.anew {
		return errors.New("say what to suppose: --without NAME, -l SELECTOR, -f FILE, or --anew")
	}
	ctx, c, err := w.connectAnywhere(cmd)
	if err != nil {
		return err
	}
	if err := c.checkNames(ctx, w.without); err != nil {
		return err
	}
	without, err := c.selected(ctx, w.without, w.selector)
	if err != nil {
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
	if policy != nil && policy.namespace != "" {
		a.also = policy.unit()
	}
	questions, err := c.questions(ctx, a, func(at place) *placementv1alpha1.PlacementReviewSpec {
		var spec *placementv1alpha1.PlacementReviewSpec
		if policy != nil {
			spec = policy.suppose(at)
		}
		switch {
		case spec != nil:
		case policy != nil && len(without) == 0, at.placement == nil && a.namespace == "":
			return nil // what it is not for stays as it is
		default:
			spec = &placementv1alpha1.PlacementReviewSpec{}
		}
		spec.Without, spec.Anew = without, w.anew
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

// selected adds to the names of physical clusters those that have the labels, once each. In a
// logical cluster they are its Nodes.
func (c *connection) selected(ctx context.Context, names []string, selector string) ([]string, error) {
	if selector == "" {
		return names, nil
	}
	names = slices.Clone(names)
	options := metav1.ListOptions{LabelSelector: selector}
	if c.cluster == scope.Root {
		list, err := c.atoll.FleetV1alpha1().PhysicalClusters().List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	} else {
		list, err := c.kube.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("looking for the physical clusters with these labels: %w", err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return nil, fmt.Errorf("no physical cluster has the labels %s", selector)
	}
	return names, nil
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
	got, err := c.ask(ctx, w.ErrOut, questions)
	if err != nil {
		return err
	}
	return w.print.answers(w.options, got, c.cluster == scope.Root)
}

// answers prints what came of questions.
func (p *printFlags) answers(o *options, got answers, logicalClusters bool) error {
	if !p.forPeople() {
		return p.print(o, nil, got.reviews...)
	}
	if len(got.outcomes) > 0 {
		if err := p.print(o, report.WhatIf(got.outcomes, logicalClusters)); err != nil {
			return err
		}
		fmt.Fprintln(o.Out)
	}
	fmt.Fprintln(o.Out, report.Count(got.outcomes))
	return nil
}
