package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// trusted is what an admin may permit to some logical clusters, and no tenant to himself.
var trusted = fleetv1alpha1.Tenancy{PodSecurity: "privileged"}

// permittingRules are those of a policy that permits it.
func permittingRules() placementv1alpha1.PolicyRules {
	return placementv1alpha1.PolicyRules{Overrides: []placementv1alpha1.Override{{Permits: &trusted}}}
}

var permits = Attack{
	Name: "a tenant's policies, Placements and stamps permit him nothing",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(ctx)
		if err != nil {
			return err
		}
		for what, try := range map[string]func() error{
			"a policy of a namespace": func() error {
				p := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "trusting"}, Spec: placementv1alpha1.PlacementPolicySpec{PolicyRules: permittingRules()}}
				_, err := who.atoll.PlacementV1alpha1().PlacementPolicies("web").Create(ctx, p, metav1.CreateOptions{})
				return err
			},
			"a policy of the logical cluster": func() error {
				p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "trusting"}, Spec: placementv1alpha1.PolicySpec{PolicyRules: permittingRules()}}
				_, err := who.atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(ctx, p, metav1.CreateOptions{})
				return err
			},
			"a policy that selects his logical cluster": func() error {
				p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "selecting"}, Spec: placementv1alpha1.PolicySpec{
					LogicalClusterSelector: &metav1.LabelSelector{}, PolicyRules: permittingRules(),
				}}
				_, err := who.atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(ctx, p, metav1.CreateOptions{})
				return err
			},
			"the decision": func() error {
				p, err := who.atoll.PlacementV1alpha1().Placements("web").Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if p.Spec.Decision == nil {
					return errors.New("it is not decided, so this finds nothing")
				}
				p.Spec.Decision.Overrides = []placementv1alpha1.DecidedOverride{{Name: "trusting", PhysicalClusters: []string{Mallory}, Permits: &trusted}}
				_, err = who.atoll.PlacementV1alpha1().Placements("web").Update(ctx, p, metav1.UpdateOptions{})
				return err
			},
		} {
			if err := try(); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
				return fmt.Errorf("%s: %w", what, errors.Join(errors.New("it is not refused"), err))
			}
		}
		// A stamp may be written, with what admission makes of it.
		d, err := who.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		stamp.Set(d, trusting(d))
		if _, err := who.kube.AppsV1().Deployments("web").Update(ctx, d, metav1.UpdateOptions{}); err != nil && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("a Deployment with another stamp: %w", err)
		}
		ns, err := w.admin.kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		stamp.Set(ns, trusting(ns))
		if _, err := who.kube.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{}); err != nil && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("a Namespace with another stamp: %w", err)
		}
		if on, err := w.permitted(ctx); err != nil || on != "" {
			return errors.Join(err, fmt.Errorf("more is permitted to %q", on))
		}
		return nil
	},
	// An admin's policy for a logical cluster that he labelled permits it.
	Control: func(ctx context.Context, w *World) error {
		root := scope.WithCluster(ctx, scope.Root)
		label := map[string]string{"trusted": "agents"}
		p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "trusting"}, Spec: placementv1alpha1.PolicySpec{
			LogicalClusterSelector: &metav1.LabelSelector{MatchLabels: label}, PolicyRules: permittingRules(),
		}}
		policies := w.admin.atoll.PlacementV1alpha1().ClusterPlacementPolicies()
		if _, err := policies.Create(root, p, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a policy of the admin: %w", err)
		}
		defer func() { _ = policies.Delete(context.WithoutCancel(root), p.Name, metav1.DeleteOptions{}) }()
		ctx, err := w.cluster(ctx, func(c *tenancyv1alpha1.LogicalCluster) { c.Labels = label })
		if err != nil {
			return err
		}
		if err := w.place(ctx, "web", map[string]string{placementv1alpha1.PhysicalClusterAnnotation: Mallory}, "1m"); err != nil {
			return err
		}
		return eventually(ctx, "what an admin permits", func() error {
			if on, err := w.permitted(ctx); err != nil || on == "" {
				return errors.Join(err, errors.New("nothing more is permitted"))
			}
			return nil
		})
	},
}

// trusting are the targets of an object, with more that is permitted there.
func trusting(obj metav1.Object) placementv1alpha1.Targets {
	targets := stamp.TargetsOf(obj.GetAnnotations())
	t := targets[Mallory]
	t.Overrides = append(slices.Clone(t.Overrides), placementv1alpha1.TargetOverride{Name: "trusting", Permits: &trusted})
	targets[Mallory] = t
	return targets
}

// permitted is what of the namespace "web" is stamped with more that is permitted on the hostile physical
// cluster; empty if nothing is.
func (w *World) permitted(ctx context.Context) (string, error) {
	ns, err := w.admin.kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	d, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for what, obj := range map[string]metav1.Object{"the Namespace": ns, "the Deployment": d} {
		if slices.ContainsFunc(stamp.TargetsOf(obj.GetAnnotations())[Mallory].Overrides, func(o placementv1alpha1.TargetOverride) bool { return o.Permits != nil }) {
			return what, nil
		}
	}
	return "", nil
}
