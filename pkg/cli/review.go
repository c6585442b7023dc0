package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
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

// reviewsInFlight bounds how many reviews of access are asked at a time.
const reviewsInFlight = 8

// progressEvery is after how many of more units it is said how far the questions are.
const progressEvery = 100

// review asks the server where a unit of a namespace would go.
func (c *connection) review(ctx context.Context, namespace string, spec placementv1alpha1.PlacementReviewSpec) (*placementv1alpha1.PlacementReview, error) {
	ask := &placementv1alpha1.PlacementReview{Spec: spec}
	ask.Name, ask.Namespace = namespace, namespace
	return c.atoll.PlacementV1alpha1().PlacementReviews(namespace).Create(ctx, ask, metav1.CreateOptions{})
}

// question is one unit to ask about, and what to suppose.
type question struct {
	report.Unit
	spec placementv1alpha1.PlacementReviewSpec
}

// answers are what came of questions, in the order in which they were asked; those about units
// that went meanwhile are left out.
type answers struct {
	reviews  []runtime.Object
	outcomes []report.Outcome
}

// ask asks one question after the other, each as if what was answered before had come about: room for
// one is room for one of them. From root the server counts units, too.
func (c *connection) ask(ctx context.Context, progress io.Writer, questions []question) (answers, error) {
	slices.SortFunc(questions, func(a, b question) int { return a.Unit.Compare(b.Unit) })
	var out answers
	taken := report.NewTaken(c.cluster == scope.Root)
	for i, q := range questions {
		if i > 0 && i%progressEvery == 0 {
			fmt.Fprintf(progress, "asked about %d of %d\n", i, len(questions))
		}
		q.spec.Assumed = taken.Assumed()
		if q.Name != placementv1alpha1.NamespaceUnit {
			q.spec.Unit = q.Name
		}
		answer, err := c.review(scope.WithCluster(ctx, logicalcluster.Name(q.LogicalCluster)), q.Namespace, q.spec)
		if apierrors.IsNotFound(err) || isGone(err) {
			continue
		}
		if err != nil {
			return answers{}, fmt.Errorf("asking about %s of the logical cluster %s: %w", report.UnitName(q.Namespace, q.Name), q.LogicalCluster, err)
		}
		outcome := report.Compare(q.Unit, answer.Status)
		taken.Add(outcome, answer.Status.Requests)
		out.reviews, out.outcomes = append(out.reviews, answer), append(out.outcomes, outcome)
	}
	return out, nil
}

// isGone says that a unit that was listed went before it was asked about.
func isGone(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	return len(causes) == 1 && causes[0].Field == "spec.unit"
}

// area is what a command looks at: the units of one logical cluster or, from root, of all of
// them.
type area struct {
	// namespace is empty for all.
	namespace string
	// unplaced includes namespaces that are not placed.
	unplaced bool
	// also is asked about even if there is no Placement of it yet.
	also unit
}

// place is a unit that may be asked about.
type place struct {
	cluster   *tenancyv1alpha1.LogicalCluster
	namespace *corev1.Namespace
	unit      string
	// placement is nil if there is none yet.
	placement *placementv1alpha1.Placement
}

// asked is how it is named, and when it is asked about.
func (p place) asked() report.Unit {
	return report.NewUnit(p.cluster.Name, p.namespace.Name, p.unit, p.placement)
}

// questions asks about each unit of the area for which suppose supposes something.
func (c *connection) questions(ctx context.Context, a area, suppose func(place) *placementv1alpha1.PlacementReviewSpec) ([]question, error) {
	clusters, err := c.logicalClusters(ctx)
	if err != nil {
		return nil, err
	}
	var out []question
	for i := range clusters {
		cluster := &clusters[i]
		places, err := c.places(scope.WithCluster(ctx, logicalcluster.Name(cluster.Name)), cluster, a)
		if err != nil {
			return nil, fmt.Errorf("listing what is placed in the logical cluster %s: %w", cluster.Name, err)
		}
		for _, p := range places {
			if spec := suppose(p); spec != nil {
				out = append(out, question{p.asked(), *spec})
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

// places are the units of an area in a logical cluster, that of ctx. Namespaces of the system
// count if they are placed.
func (c *connection) places(ctx context.Context, cluster *tenancyv1alpha1.LogicalCluster, a area) ([]place, error) {
	namespaces, err := c.namespaces(ctx, a)
	if err != nil {
		return nil, err
	}
	placements := map[string][]*placementv1alpha1.Placement{}
	if err := c.eachPlacement(ctx, a.namespace, func(p *placementv1alpha1.Placement) error {
		placements[p.Namespace] = append(placements[p.Namespace], p)
		return nil
	}); err != nil {
		return nil, err
	}
	var out []place
	for i := range namespaces {
		ns := &namespaces[i]
		wanted := map[string]bool{}
		switch {
		case a.also.namespace == ns.Name:
			wanted[a.also.name] = true
		case a.namespace != "", a.unplaced && !strings.HasPrefix(ns.Name, "kube-"):
			wanted[placementv1alpha1.NamespaceUnit] = len(placements[ns.Name]) == 0 || a.unplaced
		}
		for _, p := range placements[ns.Name] {
			out = append(out, place{cluster, ns, p.Name, p})
			delete(wanted, p.Name)
		}
		for unit, ok := range wanted {
			if ok {
				out = append(out, place{cluster, ns, unit, nil})
			}
		}
	}
	return out, nil
}

// namespaces are those of an area in the logical cluster of ctx.
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
	var out []corev1.Namespace
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.kube.CoreV1().Namespaces().List(ctx, o)
	})
	p.PageSize = pageSize
	err := p.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		out = append(out, *obj.(*corev1.Namespace))
		return nil
	})
	return out, err
}
