package admission

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// gate says in a warning how much an edit of a policy moves, and refuses one that moves more
// than the policies permit without the number.
type gate struct {
	lookup *lookup
	// policies are those of logical clusters, own those of namespaces.
	policies *controller.Informer[*placementv1alpha1.ClusterPlacementPolicy]
	own      *controller.Informer[*placementv1alpha1.PlacementPolicy]
	counts   *concurrency
}

func newGate(config Config, l *lookup) *gate {
	return &gate{lookup: l, policies: config.Policies, own: config.NamespacePolicies, counts: newConcurrency()}
}

// validate
//
//	the edit moves   the policies         it carries                 then
//	nothing          any                  any                        nothing
//	some             permit so many       any                        a warning
//	some             permit fewer         the number, or a greater   a warning
//	some             permit fewer         none, a lesser, or the     refused, with the number
//	                                      one of an earlier edit
func (g *gate) validate(ctx context.Context, r *request) error {
	if !r.user() || r.GetSubresource() != "" {
		return nil
	}
	edit, ok := editOf(r)
	if !ok {
		return nil
	}
	moved, err := g.count(ctx, r, edit)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("counting what the edit moves: %w", err))
	}
	if moved.radius.Units == 0 {
		return nil
	}
	if policy, most, n, exceeds := moved.radius.Exceeds(); exceeds {
		if key, problem := unconfirmed(r, moved.radius.Units); problem != "" {
			return admission.NewForbidden(r.Attributes, fmt.Errorf("it moves %s, %d of them of %s, which permits %d without a confirmation: annotate it with %s=%d%s",
				moved, n, policy, most, key, moved.radius.Units, problem))
		}
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("this moves %s, as far as there is somewhere to go", moved))
	return nil
}

// editOf is the edit of a request that writes or deletes the rules of a policy.
func editOf(r *request) (placement.Edit, bool) {
	if gr := r.groupResource(); gr != clusterPoliciesResource && gr != namespacePoliciesResource {
		return placement.Edit{}, false
	}
	now, before := r.GetObject(), r.GetOldObject()
	if r.GetOperation() == admission.Delete {
		now = nil
	}
	edit := placement.Edit{Old: policyIn(before, r.cluster), New: policyIn(now, r.cluster)}
	if edit.Old == nil && edit.New == nil {
		return edit, false
	}
	return edit, !sameSpec(before, now)
}

// policyIn is the policy that an object is; nil if it is none.
func policyIn(obj runtime.Object, cluster logicalcluster.Name) *placement.Policy {
	var out placement.Policy
	switch p := obj.(type) {
	case *placementv1alpha1.ClusterPlacementPolicy:
		if out = placement.Local(p); cluster == scope.Root {
			out = placement.Global(p)
		}
	case *placementv1alpha1.PlacementPolicy:
		out = placement.InNamespace(p)
	default:
		return nil
	}
	return &out
}

func sameSpec(a, b runtime.Object) bool {
	switch a := a.(type) {
	case *placementv1alpha1.ClusterPlacementPolicy:
		b, ok := b.(*placementv1alpha1.ClusterPlacementPolicy)
		return ok && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
	case *placementv1alpha1.PlacementPolicy:
		b, ok := b.(*placementv1alpha1.PlacementPolicy)
		return ok && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
	}
	return false
}

// unconfirmed says what is wrong with the number that an edit carries, and where it has to
// be; the problem is empty if it suffices. The number of an earlier edit confirms nothing.
func unconfirmed(r *request, n int) (key, problem string) {
	var carried, earlier string
	key = placementv1alpha1.ConfirmMovesAnnotation
	if r.GetOperation() == admission.Delete {
		key = placementv1alpha1.ConfirmDeletionAnnotation
		carried = r.old.GetAnnotations()[key]
	} else {
		carried = r.obj.GetAnnotations()[key]
		if r.old != nil {
			earlier = r.old.GetAnnotations()[key]
		}
	}
	number, err := strconv.Atoi(carried)
	switch {
	case carried == "":
		return key, " if you mean that"
	case err != nil:
		return key, fmt.Sprintf(" (%q is no number)", carried)
	case number < n:
		return key, fmt.Sprintf(" (it carries %d)", number)
	case carried == earlier:
		return key, fmt.Sprintf(", or a greater number (%s is that of an earlier edit)", carried)
	}
	return key, ""
}

// impact is what an edit moves.
type impact struct {
	radius *placement.Radius
	// pods are those of the units; unknown says that nobody follows objects yet.
	pods    int
	unknown bool
	// first are the first units by name.
	first []string
}

// maxMovedNamed is how many units a sentence names.
const maxMovedNamed = 5

func (i *impact) String() string {
	names := strings.Join(i.first, ", ")
	if more := i.radius.Units - len(i.first); more > 0 {
		names += fmt.Sprintf(", and %d more", more)
	}
	pods := " with " + counted("pod", i.pods)
	if i.unknown {
		pods = ""
	}
	return fmt.Sprintf("%s%s (%s)", counted("unit", i.radius.Units), pods, names)
}

func counted(what string, n int) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (i *impact) add(r *request, u placement.Unit, pods int, known bool) {
	i.radius.Add(u)
	i.pods, i.unknown = i.pods+pods, i.unknown || !known
	name := u.Namespace
	if u.Name != placementv1alpha1.NamespaceUnit {
		name += "/" + u.Name
	}
	if r.cluster == scope.Root {
		name = u.LogicalCluster.String() + ":" + name
	}
	at, _ := slices.BinarySearch(i.first, name)
	i.first = slices.Insert(i.first, at, name)
	i.first = i.first[:min(len(i.first), maxMovedNamed)]
}
