package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// reviewsInFlight bounds how many namespaces are asked about at a time.
const reviewsInFlight = 8

// review asks the server where a namespace would go.
func (c *connection) review(ctx context.Context, namespace string, spec placementv1alpha1.PlacementReviewSpec) (*placementv1alpha1.PlacementReview, error) {
	ask := &placementv1alpha1.PlacementReview{Spec: spec}
	ask.Name, ask.Namespace = namespace, namespace
	return c.atoll.PlacementV1alpha1().PlacementReviews(namespace).Create(ctx, ask, metav1.CreateOptions{})
}

// question is one namespace to ask about, and what to suppose.
type question struct {
	cluster   logicalcluster.Name
	namespace string
	spec      placementv1alpha1.PlacementReviewSpec
}

// answers are what came of questions, in their order; those about namespaces that went
// meanwhile are left out.
type answers struct {
	reviews  []runtime.Object
	outcomes []report.Outcome
}

// ask asks all questions, several at a time.
func (c *connection) ask(ctx context.Context, questions []question) (answers, error) {
	reviews := make([]*placementv1alpha1.PlacementReview, len(questions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsInFlight)
	for i, q := range questions {
		group.Go(func() error {
			answer, err := c.review(scope.WithCluster(ctx, q.cluster), q.namespace, q.spec)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("asking about namespace %s of the logical cluster %s: %w", q.namespace, q.cluster, err)
			}
			reviews[i] = answer
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return answers{}, err
	}
	var out answers
	for i, q := range questions {
		if reviews[i] != nil {
			out.reviews = append(out.reviews, reviews[i])
			out.outcomes = append(out.outcomes, report.Compare(q.cluster.String(), q.namespace, reviews[i].Status))
		}
	}
	return out, nil
}

// area is what a command looks at: the namespaces of one logical cluster or, from root,
// of all of them.
type area struct {
	// namespace is empty for all.
	namespace string
	// unplaced includes namespaces that are not placed.
	unplaced bool
}

// questions asks about each namespace of the area for which suppose supposes something.
func (c *connection) questions(ctx context.Context, a area, suppose func(*tenancyv1alpha1.LogicalCluster, *corev1.Namespace) *placementv1alpha1.PlacementReviewSpec) ([]question, error) {
	clusters, err := c.logicalClusters(ctx)
	if err != nil {
		return nil, err
	}
	var out []question
	for i := range clusters {
		cluster := &clusters[i]
		ctx := scope.WithCluster(ctx, logicalcluster.Name(cluster.Name))
		namespaces, err := c.namespaces(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("listing the namespaces of the logical cluster %s: %w", cluster.Name, err)
		}
		for j := range namespaces {
			if spec := suppose(cluster, &namespaces[j]); spec != nil {
				out = append(out, question{logicalcluster.Name(cluster.Name), namespaces[j].Name, *spec})
			}
		}
	}
	return out, nil
}

// logicalClusters are the one that the context points to or, from root, all. Of the
// first only the name is known: its labels are the admin's.
func (c *connection) logicalClusters(ctx context.Context) ([]tenancyv1alpha1.LogicalCluster, error) {
	if c.cluster != scope.Root {
		return []tenancyv1alpha1.LogicalCluster{{ObjectMeta: metav1.ObjectMeta{Name: c.cluster.String()}}}, nil
	}
	list, err := c.atoll.TenancyV1alpha1().LogicalClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the logical clusters: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(lc tenancyv1alpha1.LogicalCluster) bool {
		return lc.Name == scope.Root.String() || lc.DeletionTimestamp != nil
	}), nil
}

// namespaces are those of an area in the logical cluster of ctx. Those of the system count
// if they are placed.
func (c *connection) namespaces(ctx context.Context, a area) ([]corev1.Namespace, error) {
	if a.namespace != "" {
		ns, err := c.kube.CoreV1().Namespaces().Get(ctx, a.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && c.cluster == scope.Root {
			return nil, nil // it is that of another logical cluster
		}
		if err != nil {
			return nil, err
		}
		return []corev1.Namespace{*ns}, nil
	}
	placed := map[string]bool{}
	if err := c.eachPlacement(ctx, metav1.NamespaceAll, func(p *placementv1alpha1.Placement) error {
		placed[p.Namespace] = true
		return nil
	}); err != nil {
		return nil, err
	}
	var out []corev1.Namespace
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.kube.CoreV1().Namespaces().List(ctx, o)
	})
	p.PageSize = pageSize
	err := p.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		ns := obj.(*corev1.Namespace)
		if placed[ns.Name] || a.unplaced && !strings.HasPrefix(ns.Name, "kube-") {
			out = append(out, *ns)
		}
		return nil
	})
	return out, err
}
