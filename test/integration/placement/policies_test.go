package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// ownPolicy makes a policy in a namespace.
func ownPolicy(t *testing.T, ctx context.Context, namespace string, change func(*placementv1alpha1.PolicyRules)) {
	t.Helper()
	p := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	change(&p.Spec.PolicyRules)
	if _, err := shared.Atoll.PlacementV1alpha1().PlacementPolicies(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the policy of namespace %s: %v", namespace, err)
	}
}

// What each level permits holds together; a policy that was just written holds for the
// next object, and the Placement names those that were heard.
func testLevels(t *testing.T) {
	ctx := newCluster(t, "levels")
	policy(t, "levels", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "eu") })
	local := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	local.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "fenced"}}
	local.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "region", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"eu"}}}}}
	policies := shared.Atoll.PlacementV1alpha1().ClusterPlacementPolicies()
	if _, err := policies.Create(ctx, local, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"free", "fenced", "own"} {
		namespace(t, ctx, name)
	}
	ownPolicy(t, ctx, "own", func(r *placementv1alpha1.PolicyRules) { r.Terms = only("region", "us") })
	if got := targetsOf(create(t, ctx, "free", deployment("a"))); got != "east" {
		t.Errorf("a namespace that only the admin fences is on %q", got)
	}
	for name, want := range map[string]string{"fenced": "no term of policy local of the logical cluster selects it", "own": "no term of policy own of the namespace selects it"} {
		if got := targetsOf(create(t, ctx, name, deployment("a"))); got != "" {
			t.Errorf("%s left the fence of the admin for %q", name, got)
		}
		status := placementOf(t, ctx, name).Status
		rejected := func(name, message string) bool { // the condition names ten, of which other tests have some
			return slices.ContainsFunc(status.Rejected, func(r placementv1alpha1.RejectedPhysicalCluster) bool {
				return r.PhysicalCluster == name && strings.Contains(r.Message, message)
			})
		}
		if c := meta.FindStatusCondition(status.Conditions, placementv1alpha1.ConditionScheduled); c == nil || c.Status != metav1.ConditionFalse || !rejected("east", want) || !rejected("west", "") {
			t.Errorf("%s: %+v", name, status)
		}
	}
	heard := placementOf(t, ctx, "free").Spec.Decision.Policies
	if diff := cmp.Diff([]placementv1alpha1.PolicyReference{{Level: placementv1alpha1.PolicyGlobal, Name: "levels", Generation: 1}}, heard); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}

	// A tenant sees its own policies, not those of root, and selects no logical clusters.
	list, err := policies.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "local" {
		t.Errorf("a tenant sees the policies %v, %v", list, err)
	}
	local.Name, local.ResourceVersion = "others", ""
	local.Spec.LogicalClusterSelector = &metav1.LabelSelector{}
	if _, err := policies.Create(ctx, local, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.logicalClusterSelector") {
		t.Errorf("a policy of a tenant for other logical clusters: %v", err)
	}

	// The namespace waits no longer than its own policy forbids it.
	if err := shared.Atoll.PlacementV1alpha1().PlacementPolicies("own").Delete(ctx, "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "placing what waited for its policy to go", func() error {
		d, err := shared.Kube.AppsV1().Deployments("own").Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expect("targets", "east", targetsOf(d))
	})
}

// Layout, preferences and relations, from the policy of a namespace.
func testPolicyRules(t *testing.T) {
	ctx := newCluster(t, "rules3")
	two := int32(2)
	for _, c := range []struct {
		name, want string
		rules      func(*placementv1alpha1.PolicyRules)
	}{
		{"prefers", "west", func(r *placementv1alpha1.PolicyRules) { r.Preferences = only("region", "us") }},
		{"weighs", "west", func(r *placementv1alpha1.PolicyRules) {
			r.Weights = []placementv1alpha1.Weight{{Weight: 1, Term: &only("region", "us")[0]}}
		}},
		{"each", "east,west", func(r *placementv1alpha1.PolicyRules) {
			r.Terms = []placementv1alpha1.PhysicalClusterTerm{only("region", "eu")[0], only("region", "us")[0]}
			r.Topology = []placementv1alpha1.TopologyTier{{Key: "region"}}
		}},
		{"two", "east,west", func(r *placementv1alpha1.PolicyRules) {
			r.Count, r.Spread = &two, &placementv1alpha1.TopologySpread{Key: "region", MaxSkew: 1}
			r.Terms = []placementv1alpha1.PhysicalClusterTerm{only("region", "eu")[0], only("region", "us")[0]}
		}},
		{"beside", "west", func(r *placementv1alpha1.PolicyRules) {
			r.Affinity = related(placementv1alpha1.AffinityWith, "prefers")
		}},
		{"apart", "east", func(r *placementv1alpha1.PolicyRules) {
			r.Terms = []placementv1alpha1.PhysicalClusterTerm{only("region", "eu")[0], only("region", "us")[0]}
			r.Affinity = related(placementv1alpha1.AffinityWithout, "prefers")
		}},
	} {
		namespace(t, ctx, c.name)
		ownPolicy(t, ctx, c.name, c.rules)
		dry, err := shared.Kube.AppsV1().Deployments(c.name).Create(ctx, deployment("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || targetsOf(dry) != c.want {
			t.Errorf("%s: a dry run says %q (%v), not %q", c.name, targetsOf(dry), err, c.want)
		}
		if got := targetsOf(create(t, ctx, c.name, deployment("a"))); got != c.want {
			t.Errorf("%s is on %q, not %q", c.name, got, c.want)
		}
	}

	// The admin bounds how many copies a tenant may have of everything.
	policy(t, "rules3", func(s *placementv1alpha1.PolicySpec) { s.MaxCount = new(int32(1)) })
	namespace(t, ctx, "many")
	ownPolicy(t, ctx, "many", func(r *placementv1alpha1.PolicyRules) {
		r.Count, r.IfImpossible = &two, placementv1alpha1.ImpossibleRefuse
	})
	_, err := shared.Kube.AppsV1().Deployments("many").Create(ctx, deployment("a"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "2 physical clusters are wanted, and policy rules3 permits no more than 1") {
		t.Errorf("more than the admin permits: %v", err)
	}
}

func related(how placementv1alpha1.AffinityType, namespace string) []placementv1alpha1.UnitAffinity {
	return []placementv1alpha1.UnitAffinity{{Type: how, NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}}}
}

// A policy that no longer permits where a namespace is, and nothing may move; the Placement, an
// event, and a warning with the next write say so, until it is met again.
func testUnsatisfied(t *testing.T) {
	ctx := newCluster(t, "unsatisfied")
	policy(t, "unsatisfied", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "eu") })
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	satisfied := func(want metav1.ConditionStatus) func() error {
		return func() error {
			c := meta.FindStatusCondition(placementOf(t, ctx, "web").Status.Conditions, placementv1alpha1.ConditionPolicySatisfied)
			if c == nil {
				return fmt.Errorf("it is not said yet")
			}
			return expect("PolicySatisfied", want, c.Status)
		}
	}
	server.Eventually(t, waitTimeout, "a policy that is met", satisfied(metav1.ConditionTrue))
	ownPolicy(t, ctx, "web", func(r *placementv1alpha1.PolicyRules) {
		r.Terms, r.Move = only("region", "us"), &placementv1alpha1.MoveRules{Mode: placementv1alpha1.MoveNever}
	})
	server.Eventually(t, waitTimeout, "a policy that is not met", satisfied(metav1.ConditionFalse))
	server.Eventually(t, waitTimeout, "the event", func() error {
		events, err := shared.Kube.CoreV1().Events("web").List(ctx, metav1.ListOptions{FieldSelector: "reason=PolicyNotSatisfied"})
		if err != nil || len(events.Items) == 0 {
			return fmt.Errorf("there is none (%v)", err)
		}
		return expect("it is about", "Placement", events.Items[0].InvolvedObject.Kind)
	})
	server.Eventually(t, waitTimeout, "a warning, and the object stays", func() error {
		client, warned := warningClient(t)
		d, err := client.AppsV1().Deployments("web").Patch(ctx, "a", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		if text := warned.text(); !strings.Contains(text, "namespace web: it is placed on east; ") {
			return fmt.Errorf("the warning says %q", text)
		}
		return expect("targets", "east", targetsOf(d))
	})
	if err := shared.Atoll.PlacementV1alpha1().PlacementPolicies("web").Delete(ctx, "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "a policy that is met again", satisfied(metav1.ConditionTrue))
}

// What a new object needs and its physical cluster does not have is a warning.
func testLacks(t *testing.T) {
	ctx := newCluster(t, "lacks")
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	large := deployment("large")
	large.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
	server.Eventually(t, waitTimeout, "a warning", func() error {
		client, warned := warningClient(t)
		d, err := client.AppsV1().Deployments("web").Create(ctx, large, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if text := warned.text(); !strings.Contains(text, "which does not have what this needs: 1k of cpu is wanted") {
			return fmt.Errorf("the warning says %q", text)
		}
		if targetsOf(d) == "" {
			return fmt.Errorf("it has no targets")
		}
		return nil
	})
}

// A PlacementReview answers as the next object would be placed, and stores nothing.
func testReview(t *testing.T) {
	ctx := newCluster(t, "review")
	policy(t, "review", func(s *placementv1alpha1.PolicySpec) {
		s.Terms = []placementv1alpha1.PhysicalClusterTerm{only("region", "eu")[0], only("region", "us")[0]}
		s.Preferences = only("region", "eu")
	})
	namespace(t, ctx, "web")
	ask := func(spec placementv1alpha1.PlacementReviewSpec) placementv1alpha1.PlacementReviewStatus {
		t.Helper()
		got, err := shared.Atoll.PlacementV1alpha1().PlacementReviews("web").Create(ctx, &placementv1alpha1.PlacementReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	where := func(s placementv1alpha1.PlacementReviewStatus) string { return strings.Join(s.PhysicalClusters, ",") }
	first := ask(placementv1alpha1.PlacementReviewSpec{})
	if where(first) != "east" || len(first.Decided) > 0 || first.Message != "placed on east" || len(first.Policies) != 1 {
		t.Errorf("at first: %+v", first)
	}
	if _, err := shared.Atoll.PlacementV1alpha1().Placements("web").Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the review stored a placement: %v", err)
	}
	large := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1k"}}}]}}`
	if got := ask(placementv1alpha1.PlacementReviewSpec{Object: &runtime.RawExtension{Raw: []byte(large)}}); where(got) != "" || !strings.Contains(got.Message, "1k of cpu is wanted") {
		t.Errorf("with an object that fits nowhere: %+v", got)
	}
	if got := targetsOf(create(t, ctx, "web", deployment("a"))); got != "east" {
		t.Fatalf("the object is on %q", got)
	}
	us := &placementv1alpha1.PolicyRules{Preferences: only("region", "us")}
	terms := &placementv1alpha1.PolicyRules{Terms: only("region", "us")}
	reviewPolicy := &placementv1alpha1.PolicyName{Level: placementv1alpha1.PolicyGlobal, Name: "review"}
	other := &placementv1alpha1.PolicyName{Level: placementv1alpha1.PolicyLogicalCluster, Name: "review"}
	for _, c := range []struct {
		name, want string
		spec       placementv1alpha1.PlacementReviewSpec
	}{
		{"what is there stays", "east", placementv1alpha1.PlacementReviewSpec{Policy: us}},
		{"anew, with another policy", "west", placementv1alpha1.PlacementReviewSpec{Policy: us, Anew: true}},
		{"a policy of root that permits less", "west", placementv1alpha1.PlacementReviewSpec{Policy: terms, Replaces: reviewPolicy}},
		{"anew, in place of one of root", "west", placementv1alpha1.PlacementReviewSpec{Policy: us, Replaces: reviewPolicy, Anew: true}},
		{"without the physical cluster", "west", placementv1alpha1.PlacementReviewSpec{Without: []string{"east"}}},
	} {
		if got := ask(c.spec); where(got) != c.want || strings.Join(got.Decided, ",") != "east" {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
	// The message names ten physical clusters, and other tests have some, too.
	why := func(s placementv1alpha1.PlacementReviewStatus, name string) string {
		for _, r := range s.Rejected {
			if r.PhysicalCluster == name {
				return r.Message
			}
		}
		return ""
	}
	taken := func(cpu string) []placementv1alpha1.AssumedRequests {
		return []placementv1alpha1.AssumedRequests{{PhysicalCluster: "west", Units: 1, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	one := &runtime.RawExtension{Raw: []byte(strings.Replace(large, "1k", "1", 1))}
	if got := ask(placementv1alpha1.PlacementReviewSpec{Object: one, Drained: []string{"east"}, Assumed: taken("50")}); where(got) != "west" || got.Requests.Cpu().String() != "1" {
		t.Errorf("where room is left beside what is supposed: %+v", got)
	}
	if got := ask(placementv1alpha1.PlacementReviewSpec{Object: one, Drained: []string{"east"}, Assumed: taken("100k")}); where(got) != "" || why(got, "east") != "it is being drained" || why(got, "west") != "1 of cpu is wanted, 0 is free" {
		t.Errorf("where none is left: %+v", got)
	}
	if got := ask(placementv1alpha1.PlacementReviewSpec{Object: one, Without: []string{"east"}}); where(got) != "west" {
		t.Errorf("what was supposed is taken: %+v", got)
	}
	if got := ask(placementv1alpha1.PlacementReviewSpec{Replaces: reviewPolicy}); len(got.Policies) != 0 {
		t.Errorf("without the only policy: %+v", got)
	}
	if got := ask(placementv1alpha1.PlacementReviewSpec{Policy: us, Replaces: other}); len(got.Policies) != 2 || got.Policies[0].Level != placementv1alpha1.PolicyLogicalCluster {
		t.Errorf("with one of the logical cluster: %+v", got)
	}
	if got := targetsOf(create(t, ctx, "web", deployment("b"))); got != "east" {
		t.Errorf("a review changed the decision to %q", got)
	}
	for name, spec := range map[string]placementv1alpha1.PlacementReviewSpec{
		"spec.object":         {Object: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`)}},
		"spec.policy.count":   {Policy: &placementv1alpha1.PolicyRules{Count: new(int32(0))}},
		"spec.without":        {Without: make([]string, 65)},
		"spec.drained":        {Drained: make([]string, 65)},
		"spec.assumed[0].req": {Assumed: taken("-1")},
		"spec.replaces.level": {Replaces: &placementv1alpha1.PolicyName{Level: "Local", Name: "n"}},
		"spec.replaces.name":  {Replaces: &placementv1alpha1.PolicyName{Level: placementv1alpha1.PolicyNamespace}},
		"spec.policy.spread.": {Policy: &placementv1alpha1.PolicyRules{Spread: &placementv1alpha1.TopologySpread{}}},
	} {
		_, err := shared.Atoll.PlacementV1alpha1().PlacementReviews("web").Create(ctx, &placementv1alpha1.PlacementReview{Spec: spec}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := shared.Atoll.PlacementV1alpha1().PlacementReviews("none").Create(ctx, &placementv1alpha1.PlacementReview{}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("in no namespace: %v", err)
	}
}

// Whoever empties namespaces asks for all kinds alike, and accepts protobuf.
func testDeletesPoliciesByMetadata(t *testing.T) {
	ctx := newCluster(t, "by-metadata")
	namespace(t, ctx, "web")
	ownPolicy(t, ctx, "web", func(r *placementv1alpha1.PolicyRules) { r.Terms = only("region", "us") })
	client := metadata.NewForConfigOrDie(scope.ScopedConfig(shared.Config)).Resource(placementv1alpha1.SchemeGroupVersion.WithResource("placementpolicies")).Namespace("web")
	if list, err := client.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("deleting all policies of a namespace: %v", err)
	}
	if list, err := client.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}
