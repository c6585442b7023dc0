package placement

import (
	"context"
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/framework/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// follower is an object that only follows others.
type follower struct {
	resource schema.GroupVersionResource
	object   runtime.Object
}

// followers are what applications have beside what makes pods, all of "web".
func followers() map[string]follower {
	selects := metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	named := metav1.ObjectMeta{Name: "web"}
	port := networkingv1.ServiceBackendPort{Number: 80}
	storage := corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}
	return map[string]follower{
		"Service": {corev1.SchemeGroupVersion.WithResource("services"), serviceOf("web", "web")},
		"Ingress": {networkingv1.SchemeGroupVersion.WithResource("ingresses"), &networkingv1.Ingress{ObjectMeta: named, Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: port}}}}},
		"NetworkPolicy": {networkingv1.SchemeGroupVersion.WithResource("networkpolicies"), &networkingv1.NetworkPolicy{ObjectMeta: named,
			Spec: networkingv1.NetworkPolicySpec{PodSelector: selects}}},
		"PodDisruptionBudget": {policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), &policyv1.PodDisruptionBudget{ObjectMeta: named,
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &selects}}},
		"HorizontalPodAutoscaler": {autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"), &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named,
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}}},
		"PersistentVolumeClaim": {corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), &corev1.PersistentVolumeClaim{ObjectMeta: named,
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: storage}}},
	}
}

// as is an object as a dynamic client writes it.
func as(t *testing.T, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	gvks, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvks[0])
	return u
}

func requesting(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

// installed is what answers say to someone who installs an application: first what follows,
// then what it follows.
type installed struct {
	namespace      string
	follows, leads string
	waits          *metav1.Condition
}

// install writes an object that follows, and then a Deployment "web", which the server of
// leads is sent. What takes longer than what follows waits is begun anew in another namespace.
func install(t *testing.T, ctx context.Context, name string, f follower, cpu string, through, leads *server.Server) installed {
	t.Helper()
	for try, end := 0, time.Now().Add(2*waitTimeout); time.Now().Before(end); try++ {
		out := installed{namespace: fmt.Sprint(name, try)}
		if _, err := leads.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: out.namespace}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		d := deployment("web")
		d.Spec.Template.Spec.Containers[0].Resources.Requests = requesting(cpu)
		began := time.Now()
		first, err := through.Dynamic.Resource(f.resource).Namespace(out.namespace).Create(ctx, as(t, f.object), metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("creating what follows: %v", err)
		}
		p, err := leads.Atoll.PlacementV1alpha1().Placements(out.namespace).Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("what waits has left no placement: %v", err)
		}
		second, err := leads.Kube.AppsV1().Deployments(out.namespace).Create(ctx, d, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("creating what leads: %v", err)
		}
		if time.Since(began) > 1500*time.Millisecond {
			t.Logf("writing both took %s", time.Since(began))
			continue
		}
		out.follows, out.leads = targetsOf(first), targetsOf(second)
		out.waits = meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionScheduled)
		return out
	}
	t.Fatal("two objects were never written within a second and a half")
	return installed{}
}

// prefersSmall makes two physical clusters, and a policy of a logical cluster that prefers
// the first. That has room for little, and the second alone the storage class "fast".
func prefersSmall(t *testing.T, s *server.Server, cluster, small, big string) {
	t.Helper()
	label := func(size string) map[string]string { return map[string]string{"of": cluster, "size": size} }
	s.Register(t, small, label("small"), ownTaint)
	s.Register(t, big, label("big"), ownTaint)
	reports := func(cpu string, classes ...string) func(*fleetv1alpha1.PhysicalClusterStatus) {
		return func(st *fleetv1alpha1.PhysicalClusterStatus) {
			st.Allocatable, st.APIs, st.StorageClasses, st.DefaultStorageClass = requesting(cpu), nil, classes, "slow"
			for _, kind := range workload.Builtin().All() {
				st.APIs = append(st.APIs, kind.API())
			}
		}
	}
	s.Report(t, small, reports("10", "slow"))
	s.Report(t, big, reports("10000", "slow", "fast"))
	s.Beat(t, small, big)
	p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	p.Spec.LogicalClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"test": cluster}}
	p.Spec.Terms, p.Spec.Preferences = only("of", cluster), only("size", "small")
	p.Spec.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
	if _, err := s.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(server.InRoot(t), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// goesTo waits until an object is placed.
func goesTo(t *testing.T, ctx context.Context, s *server.Server, f follower, namespace, want string) {
	t.Helper()
	server.Eventually(t, waitTimeout, "what follows is placed", func() error {
		u, err := s.Dynamic.Resource(f.resource).Namespace(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expect("targets", want, targetsOf(u))
	})
}

func testWhatFollowsDoesNotDecide(t *testing.T) {
	ctx := newCluster(t, "follows")
	prefersSmall(t, shared, "follows", "follows-small", "follows-big")
	for kind, f := range followers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "web-" + f.resource.Resource
			got := install(t, ctx, name, f, "100", shared, shared)
			if got.follows != "" || got.leads != "follows-big" {
				t.Errorf("what follows is on %q in its answer, what leads on %q", got.follows, got.leads)
			}
			if got.waits == nil || got.waits.Status != metav1.ConditionFalse || got.waits.Reason != placementv1alpha1.ReasonWaitsForPods {
				t.Errorf("while it waits, the placement says %+v", got.waits)
			}
			goesTo(t, ctx, shared, f, got.namespace, "follows-big")
		})
	}
	t.Run("what leads fits where it is preferred", func(t *testing.T) {
		t.Parallel()
		f := followers()["Service"]
		got := install(t, ctx, "little", f, "1", shared, shared)
		if got.leads != "follows-small" {
			t.Errorf("what leads is on %q", got.leads)
		}
		goesTo(t, ctx, shared, f, got.namespace, "follows-small")
	})
	t.Run("what a claim needs counts", func(t *testing.T) {
		t.Parallel()
		f := followers()["PersistentVolumeClaim"]
		claim := f.object.(*corev1.PersistentVolumeClaim)
		claim.Spec.StorageClassName = new("fast")
		if got := install(t, ctx, "classed", f, "1", shared, shared); got.leads != "follows-big" {
			t.Errorf("what leads is on %q, where the claim has no class", got.leads)
		}
	})
}

func testWhatFollowsAlone(t *testing.T) {
	ctx := newCluster(t, "alone")
	prefersSmall(t, shared, "alone", "alone-small", "alone-big")
	for kind, f := range followers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "web-" + f.resource.Resource
			namespace(t, ctx, name)
			client := shared.Dynamic.Resource(f.resource).Namespace(name)
			dry, err := client.Create(ctx, as(t, f.object), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil || targetsOf(dry) != "alone-small" {
				t.Errorf("a dry run does not say where it goes if nothing else comes: %v", err)
			}
			if _, err := shared.Atoll.PlacementV1alpha1().Placements(name).Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the dry run has left a placement: %v", err)
			}
			if _, err := client.Create(ctx, as(t, f.object), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			goesTo(t, ctx, shared, f, name, "alone-small")
			server.Eventually(t, waitTimeout, "the Placement says so", func() error {
				p := placementOf(t, ctx, name)
				if !meta.IsStatusConditionTrue(p.Status.Conditions, placementv1alpha1.ConditionScheduled) {
					return fmt.Errorf("conditions %+v", p.Status.Conditions)
				}
				return nil
			})
			events, err := shared.Kube.CoreV1().Events(name).List(ctx, metav1.ListOptions{})
			for _, e := range events.Items {
				if err != nil || e.Type == corev1.EventTypeWarning {
					t.Errorf("an event: %s %s (error %v)", e.Reason, e.Message, err)
				}
			}
		})
	}
	t.Run("what fits nowhere is refused", func(t *testing.T) {
		t.Parallel()
		namespace(t, ctx, "refused")
		refuses := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "refused"}}
		refuses.Spec.IfImpossible = placementv1alpha1.ImpossibleRefuse
		if _, err := shared.Atoll.PlacementV1alpha1().PlacementPolicies("refused").Create(ctx, refuses, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := shared.Kube.CoreV1().Services("refused").Create(ctx, serviceOf("web", "web"), metav1.CreateOptions{}); err != nil {
			t.Fatalf("what fits: %v", err)
		}
		d := deployment("web")
		d.Spec.Template.Spec.Containers[0].Resources.Requests = requesting("20000")
		if _, err := shared.Kube.AppsV1().Deployments("refused").Create(ctx, d, metav1.CreateOptions{}); placementOf(t, ctx, "refused").Spec.Decision == nil && !apierrors.IsForbidden(err) {
			t.Errorf("what leads and does not fit: %v", err)
		}
		goesTo(t, ctx, shared, followers()["Service"], "refused", "alone-small")
	})
}

// TestWhatFollowsWaitsWhicheverServerIsAsked: a decision by one server includes what waits
// since another one was asked, and a server that starts decides what nobody has.
func TestWhatFollowsWaitsWhicheverServerIsAsked(t *testing.T) {
	endpoint, dir := etcd.Start(t), t.TempDir()
	one := server.StartOn(t, dir, endpoint)
	other := server.StartBeside(t, one, endpoint)
	defer func() { other.Stop(t) }()
	newClusterOn(t, one, "shop")
	ctx := scope.WithCluster(t.Context(), "shop")
	prefersSmall(t, one, "shop", "small", "big")
	for i, kind := range []string{"Service", "PersistentVolumeClaim"} {
		f := followers()[kind]
		if claim, ok := f.object.(*corev1.PersistentVolumeClaim); ok {
			claim.Spec.StorageClassName = new("fast")
		}
		for _, through := range []*server.Server{one, other} {
			leads := one
			if through == one {
				leads = other
			}
			cpu := []string{"100", "1"}[i] // the claim needs a class, which is enough
			got := install(t, ctx, fmt.Sprintf("%s-%t-", f.resource.Resource, through == one), f, cpu, through, leads)
			if got.follows != "" || got.leads != "big" {
				t.Errorf("%s: what follows is on %q in its answer, what leads on %q", kind, got.follows, got.leads)
			}
			goesTo(t, ctx, through, f, got.namespace, "big")
		}
	}
	left := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}
	if _, err := one.Kube.CoreV1().Namespaces().Create(ctx, left, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Kube.CoreV1().Services("left").Create(ctx, serviceOf("web", "web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one.Stop(t)
	goesTo(t, ctx, other, followers()["Service"], "left", "small")
}
