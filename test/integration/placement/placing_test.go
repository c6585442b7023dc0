package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func testFirst(t *testing.T) {
	ctx := newCluster(t, "first")
	policy(t, "first", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "us") })
	namespace(t, ctx, "web")
	d := create(t, ctx, "web", deployment("a"))
	want := map[string]string{"kcp.io/cluster": "first", placementv1alpha1.TargetsAnnotation: `{"west":{}}`, placementv1alpha1.TemplatesAnnotation: templatesOf(t, d)}
	if diff := cmp.Diff(want, d.Annotations); diff != "" {
		t.Errorf("annotations of the reply (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{placementv1alpha1.CopiesFinalizer}, d.Finalizers); diff != "" {
		t.Errorf("finalizers of the reply (-want +got):\n%s", diff)
	}
	p := placementOf(t, ctx, "web")
	wantDecision := &placementv1alpha1.Decision{
		PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "west"}},
		Policies:         []placementv1alpha1.PolicyReference{{Level: placementv1alpha1.PolicyGlobal, Name: "first", Generation: 1}},
		SchedulerName:    "atoll",
	}
	if diff := cmp.Diff(wantDecision, p.Spec.Decision); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(p.Status.Conditions, placementv1alpha1.ConditionScheduled) {
		t.Errorf("Scheduled is not True: %+v", p.Status.Conditions)
	}
	i := slices.IndexFunc(p.Status.Rejected, func(r placementv1alpha1.RejectedPhysicalCluster) bool { return r.PhysicalCluster == "east" })
	if i < 0 || p.Status.Rejected[i].Reason != "PolicyMismatch" {
		t.Errorf("no reason for east: %+v", p.Status.Rejected)
	}
	ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if physical := ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]; !strings.HasPrefix(physical, "first-web-") {
		t.Errorf("physical namespace %q", physical)
	}
	if targetsOf(ns) != "west" || !slices.Contains(ns.Finalizers, placementv1alpha1.CopiesFinalizer) {
		t.Errorf("the Namespace is not stamped: %v %v", ns.Annotations, ns.Finalizers)
	}
	service, err := shared.Kube.CoreV1().Services("web").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil || targetsOf(service) != "west" {
		t.Errorf("the second object, with a generated name: %v, %v", service.Annotations, err)
	}
	cm, err := shared.Kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "unused"}}, metav1.CreateOptions{})
	if err != nil || targetsOf(cm) != "" {
		t.Errorf("a ConfigMap that nothing refers to: %v, %v", cm.Annotations, err)
	}
}

func testDryRun(t *testing.T) {
	ctx := newCluster(t, "dryrun")
	namespace(t, ctx, "web")
	d, err := shared.Kube.AppsV1().Deployments("web").Create(ctx, deployment("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || targetsOf(d) == "" {
		t.Fatalf("no targets in the reply: %v, %v", d, err)
	}
	_, err = shared.Atoll.PlacementV1alpha1().Placements("web").Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a dry run stored a placement: %v", err)
	}
	ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil || targetsOf(ns) != "" || len(ns.Finalizers) > 0 {
		t.Errorf("a dry run stamped the namespace: %v %v, %v", ns.Annotations, ns.Finalizers, err)
	}
}

func testPending(t *testing.T) {
	ctx := newCluster(t, "pending")
	policy(t, "pending", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "moon") })
	namespace(t, ctx, "web")
	client, warned := warningClient(t)
	d, err := client.AppsV1().Deployments("web").Create(ctx, deployment("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("it was refused: %v", err)
	}
	if targetsOf(d) != "" || len(d.Finalizers) > 0 {
		t.Errorf("it is stamped: %v %v", d.Annotations, d.Finalizers)
	}
	if text := warned.text(); !strings.Contains(text, "namespace web is not placed yet") || !strings.Contains(text, "east: no term of policy pending selects it") {
		t.Errorf("the warning says %q", text)
	}
	c := meta.FindStatusCondition(placementOf(t, ctx, "web").Status.Conditions, placementv1alpha1.ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "no term of policy pending selects it") {
		t.Errorf("condition %+v", c)
	}
	server.Eventually(t, waitTimeout, "an event on the object", func() error {
		events, err := shared.Kube.CoreV1().Events("web").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(d.UID)})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "Unplaceable" && e.Type == corev1.EventTypeWarning {
				return nil
			}
		}
		return fmt.Errorf("%d other events", len(events.Items))
	})
	// A user's own update of a pending object is not refused and writes no more.
	d.Labels = map[string]string{"a": "b"}
	if _, err := shared.Kube.AppsV1().Deployments("web").Update(ctx, d, metav1.UpdateOptions{}); err != nil {
		t.Errorf("updating what waits: %v", err)
	}
}

func testRetry(t *testing.T) {
	ctx := newCluster(t, "retry")
	policy(t, "retry", func(s *placementv1alpha1.PolicySpec) {
		s.Terms = only("region", "island")
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
	})
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	create(t, ctx, "web", deployment("b"))
	service, err := shared.Kube.CoreV1().Services("web").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil || targetsOf(service) != "" {
		t.Fatalf("the service should wait: %v, %v", service, err)
	}
	register(t, "island", map[string]string{"region": "island"}, ownTaint)
	beat(t, "island")
	server.Eventually(t, waitTimeout, "all objects are placed", func() error {
		for _, name := range []string{"a", "b"} {
			d, err := shared.Kube.AppsV1().Deployments("web").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := expect("targets of "+name, "island", targetsOf(d)); err != nil {
				return err
			}
		}
		s, err := shared.Kube.CoreV1().Services("web").Get(ctx, "s", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expect("targets of the service", "island", targetsOf(s))
	})
}

// What waits together has to fit together: the bounds of the first physical cluster
// would do for either of the two.
func testDecisionFitsAll(t *testing.T) {
	ctx := newCluster(t, "fits-all")
	policy(t, "fits-all", func(s *placementv1alpha1.PolicySpec) {
		s.Terms = only("fits", "all")
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
	})
	namespace(t, ctx, "web")
	for _, name := range []string{"a", "b"} {
		d := deployment(name)
		d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		create(t, ctx, "web", d)
	}
	registerBounded(t, "fits-a", "3")
	beat(t, "fits-a")
	server.Eventually(t, waitTimeout, "the reason why fits-a does not do", func() error {
		if reasons := fmt.Sprint(placementOf(t, ctx, "web").Status.Rejected); !strings.Contains(reasons, "fits-a") || !strings.Contains(reasons, "bound") {
			return fmt.Errorf("rejected %s", reasons)
		}
		return nil
	})
	registerBounded(t, "fits-b", "4")
	beat(t, "fits-b")
	server.Eventually(t, waitTimeout, "both go where both fit", func() error {
		for _, name := range []string{"a", "b"} {
			d, err := shared.Kube.AppsV1().Deployments("web").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := expect("targets of "+name, "fits-b", targetsOf(d)); err != nil {
				return err
			}
		}
		return nil
	})
}

// registerBounded makes a physical cluster of the test above that takes so much CPU.
func registerBounded(t *testing.T, name, cpu string) {
	t.Helper()
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"fits": "all"}}}
	pc.Spec.Taints = []corev1.Taint{ownTaint}
	pc.Spec.Bounds = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	if _, err := shared.Atoll.FleetV1alpha1().PhysicalClusters().Create(root(t), pc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	report(t, name, server.Ready)
}

// The system itself cannot lose a stamp: admission gives what the decision wants in
// the same write.
func testStampStays(t *testing.T) {
	ctx := newCluster(t, "stamp-stays")
	namespace(t, ctx, "web")
	before := create(t, ctx, "web", deployment("a"))
	lose := []byte(`{"metadata":{"finalizers":null,"annotations":{"placement.atoll.dev/targets":null}}}`)
	after, err := systemKube(t).AppsV1().Deployments("web").Patch(ctx, "a", types.MergePatchType, lose, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{before.Annotations, before.Finalizers}, []any{after.Annotations, after.Finalizers}); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func testRefuse(t *testing.T) {
	ctx := newCluster(t, "refuse")
	policy(t, "refuse", func(s *placementv1alpha1.PolicySpec) {
		s.Terms, s.IfImpossible = only("region", "moon"), placementv1alpha1.ImpossibleRefuse
	})
	namespace(t, ctx, "web")
	_, err := shared.Kube.AppsV1().Deployments("web").Create(ctx, deployment("a"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "east: no term of policy refuse selects it") {
		t.Errorf("the refusal is %v", err)
	}
	if _, err := shared.Atoll.PlacementV1alpha1().Placements("web").Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refusal left a placement: %v", err)
	}
}

func testPin(t *testing.T) {
	ctx := newCluster(t, "pin")
	client := shared.Kube.CoreV1().Namespaces()
	pinned := func(name, pin string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{placementv1alpha1.PhysicalClusterAnnotation: pin}}}
	}
	if _, err := client.Create(ctx, pinned("lost", "atlantis"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `there is no physical cluster "atlantis"`) {
		t.Errorf("a pin to nowhere: %v", err)
	}
	for _, name := range []string{"east", "west"} {
		if _, err := client.Create(ctx, pinned("on-"+name, name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := create(t, ctx, "on-"+name, deployment("a")); targetsOf(d) != name {
			t.Errorf("pinned to %s, placed on %s", name, targetsOf(d))
		}
	}
	namespace(t, ctx, "late")
	pin := func(namespace, value string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, placementv1alpha1.PhysicalClusterAnnotation, value)
		_, err := client.Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if err := pin("late", "west"); err != nil {
		t.Errorf("pinning before anything is placed: %v", err)
	}
	if d := create(t, ctx, "late", deployment("a")); targetsOf(d) != "west" {
		t.Errorf("placed on %s", targetsOf(d))
	}
	if err := pin("late", "nowhere"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "there is no physical cluster") {
		t.Errorf("moving to where nothing is: %v", err)
	}
	if err := pin("late", "west"); err != nil {
		t.Errorf("pinning to where it is: %v", err)
	}
}

func testRace(t *testing.T) {
	ctx := newCluster(t, "race")
	namespace(t, ctx, "web")
	const n = 20
	var running sync.WaitGroup
	got := make([]string, n)
	for i := range n {
		running.Go(func() {
			d, err := shared.Kube.AppsV1().Deployments("web").Create(ctx, deployment(fmt.Sprintf("d%d", i)), metav1.CreateOptions{})
			if err != nil {
				got[i] = err.Error()
				return
			}
			got[i] = targetsOf(d)
		})
	}
	running.Wait()
	want := placementOf(t, ctx, "web").Spec.Decision.PhysicalClusters[0].Name
	for i, g := range got {
		if g != want {
			t.Errorf("object %d is on %s, the namespace on %s", i, g, want)
		}
	}
}

// testRecreate leaves the placement of the first namespace behind, as when the
// controller that removes it is slow.
func testRecreate(t *testing.T) {
	ctx := newCluster(t, "recreate")
	first := namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	finish(t, ctx, "web")
	second := namespace(t, ctx, "web")
	if first.UID == second.UID {
		t.Fatal("it is the same namespace")
	}
	d := create(t, ctx, "web", deployment("a"))
	if targetsOf(d) == "" {
		t.Fatal("no targets")
	}
	owner := metav1.GetControllerOf(placementOf(t, ctx, "web"))
	if owner == nil || owner.UID != second.UID {
		t.Errorf("the placement is that of %+v", owner)
	}
	ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil || targetsOf(ns) == "" {
		t.Errorf("the new namespace is not stamped: %v, %v", ns.Annotations, err)
	}
}

// finish deletes a namespace and acknowledges removals in place of syncers.
func finish(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	system := systemKube(t)
	if err := shared.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clear := []byte(`{"metadata":{"finalizers":null}}`)
	server.Eventually(t, waitTimeout, "the namespace "+name+" is gone", func() error {
		list, err := shared.Kube.AppsV1().Deployments(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			if d.DeletionTimestamp != nil {
				_, _ = system.AppsV1().Deployments(name).Patch(ctx, d.Name, types.MergePatchType, clear, metav1.PatchOptions{})
			}
		}
		ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && len(ns.Spec.Finalizers) == 0 {
			_, _ = system.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, clear, metav1.PatchOptions{})
		}
		return fmt.Errorf("still there: %v", err)
	})
}
