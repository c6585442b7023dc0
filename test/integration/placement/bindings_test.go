package placement

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

func bindTo(scheduler string, names ...string) *placementv1alpha1.PlacementBinding {
	return &placementv1alpha1.PlacementBinding{
		ObjectMeta: metav1.ObjectMeta{Name: placementv1alpha1.NamespaceUnit}, SchedulerName: scheduler, PhysicalClusters: names,
	}
}

func bind(ctx context.Context, namespace string, b *placementv1alpha1.PlacementBinding) error {
	_, err := shared.Atoll.PlacementV1alpha1().Placements(namespace).Bind(ctx, b.Name, b, metav1.CreateOptions{})
	return err
}

// eventually waits until a placement is as check wants it; what is said then is in the error.
func eventually(t *testing.T, ctx context.Context, namespace string, check func(*placementv1alpha1.Placement) string) *placementv1alpha1.Placement {
	t.Helper()
	var p *placementv1alpha1.Placement
	until(t, "the placement of "+namespace, func() string {
		p = placementOf(t, ctx, namespace)
		return check(p)
	})
	return p
}

func conditionOf(p *placementv1alpha1.Placement, name string) (status metav1.ConditionStatus, reason, message string) {
	c := meta.FindStatusCondition(p.Status.Conditions, name)
	if c == nil {
		return "", "", ""
	}
	return c.Status, c.Reason, c.Message
}

// What a policy leaves to another scheduler waits for its binding, which meets the same
// constraints; what is bound elsewhere afterwards moves.
func testBinding(t *testing.T) {
	ctx := newCluster(t, "bindings")
	policy(t, "bindings", func(s *placementv1alpha1.PolicySpec) {
		s.SchedulerName, s.IfImpossible = "cost", placementv1alpha1.ImpossibleRefuse
	})
	namespace(t, ctx, "web")
	if got := targetsOf(create(t, ctx, "web", deployment("a"))); got != "" {
		t.Fatalf("it is on %s before anybody bound it", got)
	}
	p := placementOf(t, ctx, "web")
	if p.Spec.Decision != nil || p.Status.SchedulerName != "cost" {
		t.Fatalf("decision %v of scheduler %q", p.Spec.Decision, p.Status.SchedulerName)
	}
	if status, reason, message := conditionOf(p, placementv1alpha1.ConditionScheduled); status != metav1.ConditionFalse || reason != placementv1alpha1.ReasonWaitsForScheduler ||
		!strings.Contains(message, "scheduler cost decides, and has not bound it yet; permitted are ") {
		t.Errorf("Scheduled is %s, %s: %s", status, reason, message)
	}

	register(t, "x-full", nil, ownTaint)
	for name, c := range map[string]struct {
		binding *placementv1alpha1.PlacementBinding
		is      func(error) bool
		says    string
	}{
		"of another scheduler":       {bindTo("other", "east"), apierrors.IsForbidden, "the policies name scheduler cost, not other"},
		"to a taint":                 {bindTo("cost", "x-full"), apierrors.IsForbidden, "x-full: no policy tolerates its taint own"},
		"to what is not there":       {bindTo("cost", "nowhere"), apierrors.IsForbidden, "there is no physical cluster nowhere"},
		"to nothing":                 {bindTo("cost"), apierrors.IsInvalid, "physicalClusters"},
		"to one twice":               {bindTo("cost", "east", "east"), apierrors.IsInvalid, "physicalClusters[1]"},
		"for an earlier version":     {with(bindTo("cost", "east"), func(m *metav1.ObjectMeta) { m.ResourceVersion = "1" }), apierrors.IsConflict, "read it again"},
		"for an earlier placement":   {with(bindTo("cost", "east"), func(m *metav1.ObjectMeta) { m.UID = "other" }), apierrors.IsConflict, "read it again"},
		"of a unit that is not here": {with(bindTo("cost", "east"), func(m *metav1.ObjectMeta) { m.Name = "none" }), apierrors.IsNotFound, "none"},
	} {
		if err := bind(ctx, "web", c.binding); !c.is(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a binding %s: %v, want %q", name, err, c.says)
		}
	}
	if _, err := shared.Atoll.PlacementV1alpha1().Placements("web").Bind(ctx, placementv1alpha1.NamespaceUnit, bindTo("cost", "east"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if p := placementOf(t, ctx, "web"); p.Spec.Bound != nil {
		t.Fatalf("a dry run, or what was refused, has bound it to %v", p.Spec.Bound)
	}

	if err := bind(ctx, "web", with(bindTo("cost", "east"), func(m *metav1.ObjectMeta) { m.UID = p.UID })); err != nil {
		t.Fatalf("binding: %v", err)
	}
	p = eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		if got := strings.Join(stamp.Decided(p).Names(), ","); got != "east" {
			return "decided for " + got
		}
		return ""
	})
	if p.Spec.Decision.SchedulerName != "cost" {
		t.Errorf("decided by %q", p.Spec.Decision.SchedulerName)
	}
	if got := targetsOf(create(t, ctx, "web", deployment("b"))); got != "east" {
		t.Errorf("an object that comes later is on %q", got)
	}

	if err := bind(ctx, "web", bindTo("cost", "west", "east")); err != nil {
		t.Fatalf("binding to one more: %v", err)
	}
	if err := bind(ctx, "web", bindTo("cost", "west")); err != nil {
		t.Fatalf("binding elsewhere: %v", err)
	}
	p = eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		if got := strings.Join(stamp.Decided(p).Names(), ","); got != "west" {
			return "decided for " + got
		}
		return ""
	})
	want := &placementv1alpha1.Transition{Cause: placementv1alpha1.CauseBound, Phase: placementv1alpha1.TransitionStarting, To: []string{"west"}, From: []string{"east"}, MoveTimes: placementv1alpha1.MoveTimes{MinReadySeconds: 5, DrainSeconds: 15}}
	if got := p.Spec.Transition; got == nil {
		t.Error("it moves without a transition")
	} else if diff := cmp.Diff(want, &placementv1alpha1.Transition{Cause: got.Cause, Phase: got.Phase, To: got.To, From: got.From, MoveTimes: got.MoveTimes}); diff != "" {
		t.Errorf("transition (-want +got):\n%s", diff)
	}
}

func with(b *placementv1alpha1.PlacementBinding, change func(*metav1.ObjectMeta)) *placementv1alpha1.PlacementBinding {
	change(&b.ObjectMeta)
	return b
}

// What the rules do not permit any more stays where it is until the scheduler answers, and
// says so. A pin does not ask it, and overrules what it bound.
func testSchedulerIsAwaited(t *testing.T) {
	ctx := newCluster(t, "awaited")
	policy(t, "awaited", func(s *placementv1alpha1.PolicySpec) {})
	namespace(t, ctx, "web")
	ownPolicy(t, ctx, "web", func(r *placementv1alpha1.PolicyRules) { r.SchedulerName = "cost" })
	create(t, ctx, "web", deployment("a"))
	if err := bind(ctx, "web", bindTo("cost", "east")); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		return unlike("east", strings.Join(stamp.Decided(p).Names(), ","))
	})

	policies := shared.Atoll.PlacementV1alpha1().ClusterPlacementPolicies()
	fence, err := policies.Get(root(t), "awaited", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fence.Spec.Terms = only("region", "us")
	if _, err := policies.Update(root(t), fence, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		_, reason, _ := conditionOf(p, placementv1alpha1.ConditionMoving)
		return unlike(placementv1alpha1.ReasonWaitsForScheduler, reason)
	})
	if _, _, message := conditionOf(p, placementv1alpha1.ConditionMoving); !strings.Contains(message, "east: no term of policy awaited selects it; permitted are west") {
		t.Errorf("it says %q", message)
	}
	if got := strings.Join(stamp.Decided(p).Names(), ","); got != "east" || p.Spec.Transition != nil {
		t.Errorf("it went to %s by %v", got, p.Spec.Transition)
	}
	review, err := shared.Atoll.PlacementV1alpha1().PlacementReviews("web").Create(ctx, &placementv1alpha1.PlacementReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.SchedulerName != "cost" || len(review.Status.PhysicalClusters) > 0 || !cmp.Equal(review.Status.Permitted, []string{"west"}) {
		t.Errorf("a review says %+v, %v", review.Status, err)
	}

	ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&ns.ObjectMeta, placementv1alpha1.PhysicalClusterAnnotation, "west")
	if _, err := shared.Kube.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p = eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		return unlike("west", strings.Join(stamp.Decided(p).Names(), ","))
	})
	if p.Spec.Bound != nil || p.Spec.Transition == nil || p.Spec.Transition.Cause != placementv1alpha1.CausePinned {
		t.Errorf("after a pin: bound to %v, transition %v", p.Spec.Bound, p.Spec.Transition)
	}
	if err := bind(ctx, "web", bindTo("cost", "west")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "it is pinned to west") {
		t.Errorf("binding what is pinned: %v", err)
	}
}

func unlike(want, got string) string {
	if want == got {
		return ""
	}
	return got + ", not " + want
}

// Who may bind is said by the subresource, and nothing else of a Placement comes with it.
func testBindingIsAPermission(t *testing.T) {
	ctx := newCluster(t, "binders")
	policy(t, "binders", func(s *placementv1alpha1.PolicySpec) { s.SchedulerName = "cost" })
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	as := func(user string) versioned.Interface {
		config := scope.ScopedConfig(rest.CopyConfig(shared.Config))
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		return versioned.NewForConfigOrDie(config)
	}
	for _, b := range []struct {
		user, role string
		rules      []rbacv1.PolicyRule
	}{
		{user: "editor", role: "admin"},
		{"binder", "binder", []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{placementv1alpha1.GroupName}, Resources: []string{"placements/binding"}}}},
	} {
		if b.rules != nil {
			if _, err := shared.Kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: b.role}, Rules: b.rules}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: b.user}}}
		if _, err := shared.Kube.RbacV1().RoleBindings("web").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := bindTo("cost", "east")
	if _, err := as("editor").PlacementV1alpha1().Placements("web").Bind(ctx, b.Name, b, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "placements/binding") {
		t.Errorf("the role admin of a namespace binds: %v", err)
	}
	until(t, "binding by permission", func() string { // the authorizer follows the roles
		if _, err := as("binder").PlacementV1alpha1().Placements("web").Bind(ctx, b.Name, b, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	if _, err := as("binder").PlacementV1alpha1().Placements("web").Update(ctx, placementOf(t, ctx, "web"), metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("who binds writes all of a Placement: %v", err)
	}
}

// A drain breaks nothing for a scheduler that does not answer: it waits, and says for whom.
func testDrainAwaitsTheScheduler(t *testing.T) {
	ctx := newCluster(t, "awaited-drain")
	// Messages name ten physical clusters: others in these tests come first.
	for _, name := range []string{"x-drained", "x-spare"} {
		register(t, name, map[string]string{"drain": "here"}, ownTaint)
		beat(t, name)
	}
	policy(t, "awaited-drain", func(s *placementv1alpha1.PolicySpec) {
		s.SchedulerName, s.Terms = "cost", only("drain", "here")
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
	})
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	if err := bind(ctx, "web", bindTo("cost", "x-drained")); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		return unlike("x-drained", strings.Join(stamp.Decided(p).Names(), ","))
	})
	clusters := shared.Atoll.FleetV1alpha1().PhysicalClusters()
	if _, err := clusters.Patch(root(t), "x-drained", types.MergePatchType, []byte(`{"spec":{"drain":{"requested":true}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the blockers of the drain", func() string {
		pc, err := clusters.Get(root(t), "x-drained", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if pc.Status.Drain == nil || len(pc.Status.Drain.Blockers) != 1 {
			return "there is none"
		}
		b := pc.Status.Drain.Blockers[0]
		return unlike("awaited-drain/web WaitsForScheduler: scheduler cost has to bind it elsewhere: x-drained: it is being drained; permitted are x-spare",
			b.LogicalCluster+"/"+b.Namespace+" "+b.Reason+": "+b.Message)
	})
	if p := placementOf(t, ctx, "web"); p.Spec.Transition != nil {
		t.Errorf("it leaves by %v", p.Spec.Transition)
	}
	if err := bind(ctx, "web", bindTo("cost", "x-drained")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "x-drained: it is being drained") {
		t.Errorf("binding it where it is: %v", err)
	}
	if err := bind(ctx, "web", bindTo("cost", "x-spare")); err != nil {
		t.Fatal(err)
	}
	p := eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		return unlike("x-spare", strings.Join(stamp.Decided(p).Names(), ","))
	})
	if p.Spec.Transition == nil || p.Spec.Transition.Cause != placementv1alpha1.CauseDrain {
		t.Errorf("it leaves by %v", p.Spec.Transition)
	}
}
