package placement

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// trusted is what no physical cluster of these tests permits everybody.
var trusted = []placementv1alpha1.Override{{Permits: &fleetv1alpha1.Tenancy{PodSecurity: fleetv1alpha1.PodSecurityPrivileged, NodeLabels: []string{"pool"}}}}

func privileged(name string) *appsv1.Deployment {
	d := deployment(name)
	d.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "a"}
	return d
}

// permitted is what a target of an object was permitted by policies.
const permitted = `"permits":{"podSecurity":"privileged","nodeLabels":["pool"]`

func testPolicyPermits(t *testing.T) {
	ctx, unnamed := newCluster(t, "trusted"), newCluster(t, "unnamed")
	policy(t, "trusted", func(s *placementv1alpha1.PolicySpec) { s.Overrides = trusted })
	namespace(t, ctx, "web")
	namespace(t, unnamed, "web")
	deployments := shared.Kube.AppsV1().Deployments("web")

	first := create(t, ctx, "web", privileged("first"))
	if targets := first.Annotations[placementv1alpha1.TargetsAnnotation]; !strings.Contains(targets, permitted) {
		t.Errorf("its targets are %s", targets)
	}
	levelOf := func() string {
		ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ns.Annotations[placementv1alpha1.TargetsAnnotation]
	}
	if targets := levelOf(); !strings.Contains(targets, permitted) {
		t.Errorf("the targets of its namespace are %s", targets)
	}
	_, err := deployments.Create(unnamed, privileged("first"), metav1.CreateOptions{})
	forbidden(t, "in another logical cluster", err, "spec.template.spec.nodeSelector[pool]")

	// Whoever forges a stamp is permitted nothing by it.
	forged := privileged("forged")
	forged.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"overrides":[{"name":"a",` + permitted + `}}]},"west":{"overrides":[{"name":"a",` + permitted + `}}]}}`}
	_, err = deployments.Create(unnamed, forged, metav1.CreateOptions{})
	forbidden(t, "with a forged stamp", err, "spec.template.spec.nodeSelector[pool]")
	plain := deployment("plain")
	plain.Annotations = forged.Annotations
	if targets := create(t, unnamed, "web", plain).Annotations[placementv1alpha1.TargetsAnnotation]; strings.Contains(targets, "permits") {
		t.Errorf("a forged stamp is stored: %s", targets)
	}
	plain.Spec.Template = forged.Spec.Template
	plain.Spec.Template.Labels = plain.Spec.Selector.MatchLabels
	_, err = deployments.Update(unnamed, plain, metav1.UpdateOptions{})
	forbidden(t, "with a forged stamp, later", err, "spec.template.spec.nodeSelector[pool]")

	revise := func(overrides []placementv1alpha1.Override) {
		t.Helper()
		policies := shared.Atoll.PlacementV1alpha1().ClusterPlacementPolicies()
		p, err := policies.Get(root(t), "trusted", metav1.GetOptions{})
		if err == nil {
			p.Spec.Overrides = overrides
			_, err = policies.Update(root(t), p, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	later := func() error {
		_, err := deployments.Create(ctx, privileged("later"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	revise(nil)
	server.Eventually(t, waitTimeout, "what is permitted no more is refused", func() error { return expect("refused", true, apierrors.IsForbidden(later())) })
	server.Eventually(t, waitTimeout, "the namespace is permitted nothing more", func() error { return expect("permits", false, strings.Contains(levelOf(), "permits")) })
	if _, err := deployments.Patch(ctx, "first", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("scaling what was there: %v", err)
	}
	revise(trusted)
	server.Eventually(t, waitTimeout, "what is permitted again is taken", later)
	server.Eventually(t, waitTimeout, "the namespace has it again", func() error { return expect("permits", true, strings.Contains(levelOf(), permitted)) })
}

// testPolicyPermitsOfAdmins: nobody but an admin permits anything, and only to logical clusters
// that he names.
func testPolicyPermitsOfAdmins(t *testing.T) {
	ctx := newCluster(t, "eager")
	namespace(t, ctx, "web")
	invalid := func(what string, err error, text string) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	cluster := func(change func(*placementv1alpha1.PolicySpec)) *placementv1alpha1.ClusterPlacementPolicy {
		p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "eager"}}
		p.Spec.Overrides = trusted
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	api := shared.Atoll.PlacementV1alpha1()
	const why = `spec.overrides[0].permits: Forbidden: only a policy of "root" with a logicalClusterSelector`
	_, err := api.ClusterPlacementPolicies().Create(ctx, cluster(nil), metav1.CreateOptions{})
	invalid("a policy of a logical cluster", err, why)
	_, err = api.ClusterPlacementPolicies().Create(ctx, cluster(func(s *placementv1alpha1.PolicySpec) { s.LogicalClusterSelector = &metav1.LabelSelector{} }), metav1.CreateOptions{})
	invalid("one that selects logical clusters", err, why)
	own := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "eager"}}
	own.Spec.Overrides = trusted
	_, err = api.PlacementPolicies("web").Create(ctx, own, metav1.CreateOptions{})
	invalid("a policy of a namespace", err, why)
	review := &placementv1alpha1.PlacementReview{Spec: placementv1alpha1.PlacementReviewSpec{Policy: &placementv1alpha1.PolicyRules{Overrides: trusted}}}
	_, err = api.PlacementReviews("web").Create(ctx, review, metav1.CreateOptions{})
	invalid("a policy that is supposed", err, `spec.policy.overrides[0].permits: Forbidden`)

	_, err = api.ClusterPlacementPolicies().Create(root(t), cluster(nil), metav1.CreateOptions{})
	invalid("one for all logical clusters", err, why)
	for what, c := range map[string]struct {
		change func(*placementv1alpha1.Override)
		text   string
	}{
		"no level": {func(o *placementv1alpha1.Override) { o.Permits = &fleetv1alpha1.Tenancy{PodSecurity: "none"} }, "permits.podSecurity: Unsupported value"},
		"a network": {func(o *placementv1alpha1.Override) {
			o.Permits = &fleetv1alpha1.Tenancy{Network: fleetv1alpha1.Network{Isolation: "None"}}
		}, "permits.network: Forbidden"},
		"a class": {func(o *placementv1alpha1.Override) {
			o.Permits = &fleetv1alpha1.Tenancy{RuntimeClasses: []string{"kata"}}
		}, "permits.runtimeClasses: Forbidden"},
		"both": {func(o *placementv1alpha1.Override) {
			o.Patch = []placementv1alpha1.PatchOperation{{Op: "remove", Path: "/spec/paused"}}
		}, "spec.overrides[0].patch: Forbidden"},
		"neither":     {func(o *placementv1alpha1.Override) { o.Permits = nil }, "spec.overrides[0].patch: Required"},
		"a wrong key": {func(o *placementv1alpha1.Override) { o.Permits = &fleetv1alpha1.Tenancy{Taints: []string{"a b"}} }, "permits.taints[0]: Invalid"},
	} {
		p := cluster(func(s *placementv1alpha1.PolicySpec) {
			s.LogicalClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"test": "nobody"}}
			s.Overrides = []placementv1alpha1.Override{trusted[0]}
			c.change(&s.Overrides[0])
		})
		_, err = api.ClusterPlacementPolicies().Create(root(t), p, metav1.CreateOptions{})
		invalid(what, err, c.text)
	}
}
