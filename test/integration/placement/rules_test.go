package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func quota(name string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}},
	}
}

func limit(name string) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// rule makes a quota and a limit, and says where they go.
func rule(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if _, err := shared.Kube.CoreV1().ResourceQuotas("web").Create(ctx, quota(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Kube.CoreV1().LimitRanges("web").Create(ctx, limit(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func ruledOn(t *testing.T, ctx context.Context, name string) [2]string {
	t.Helper()
	q, err := shared.Kube.CoreV1().ResourceQuotas("web").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := shared.Kube.CoreV1().LimitRanges("web").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []metav1.Object{q, l} {
		if (targetsOf(o) != "") != slices.Contains(o.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
			t.Errorf("%s: targets %q, finalizers %v", o.GetName(), targetsOf(o), o.GetFinalizers())
		}
	}
	return [2]string{targetsOf(q), targetsOf(l)}
}

func testRules(t *testing.T) {
	ctx := newCluster(t, "rules")
	policy(t, "rules", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "us") })
	namespace(t, ctx, "web")
	rule(t, ctx, "before")
	if diff := cmp.Diff([2]string{}, ruledOn(t, ctx, "before")); diff != "" {
		t.Errorf("before anything is placed (-want +got):\n%s", diff)
	}
	create(t, ctx, "web", deployment("a"))
	// At once: nobody has to wait for a controller.
	if diff := cmp.Diff([2]string{"west", "west"}, ruledOn(t, ctx, "before")); diff != "" {
		t.Errorf("with the first object (-want +got):\n%s", diff)
	}
	rule(t, ctx, "after")
	server.Eventually(t, waitTimeout, "placing new rules", func() error {
		if got := ruledOn(t, ctx, "after"); got != [2]string{"west", "west"} {
			return fmt.Errorf("they are on %q", got)
		}
		return nil
	})
}

func testRulesOnTwo(t *testing.T) {
	ctx := newCluster(t, "rules2")
	two := int32(2)
	policy(t, "rules2", func(s *placementv1alpha1.PolicySpec) { s.Count = &two })
	namespace(t, ctx, "web")
	rule(t, ctx, "before")
	targets := stamp.TargetsOf(create(t, ctx, "web", deployment("a")).Annotations).Names()
	got := ruledOn(t, ctx, "before")
	limits, err := shared.Kube.CoreV1().LimitRanges("web").Get(ctx, "before", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kind := workload.Builtin().Kinds()[1]; kind.Kind != "LimitRange" {
		t.Errorf("%s comes before what rules it", kind.Kind)
	}
	if diff := cmp.Diff(targets, stamp.TargetsOf(limits.Annotations).Names()); diff != "" || got[0] != "" {
		t.Errorf("the quota is on %q, the limit (-want +got):\n%s", got[0], diff)
	}
}

func testRuntimeHandler(t *testing.T) {
	ctx := newCluster(t, "handlers")
	namespace(t, ctx, "web")
	classes := shared.Kube.NodeV1().RuntimeClasses()
	for name, handler := range map[string]string{"safe": "runsc", "vm": "kata"} {
		if _, err := classes.Create(ctx, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d := deployment("a")
	d.Annotations = map[string]string{placementv1alpha1.RuntimeHandlerAnnotation: "forged"}
	d = create(t, ctx, "web", d)
	deployments := shared.Kube.AppsV1().Deployments("web")
	for _, c := range []struct{ class, want string }{{"safe", "runsc"}, {"vm", "kata"}, {"unknown", ""}, {"safe", "runsc"}, {"", ""}} {
		if got := d.Annotations[placementv1alpha1.RuntimeHandlerAnnotation]; c.class == "safe" && got != "" {
			t.Errorf("without a class there is the handler %q", got)
		}
		server.Eventually(t, waitTimeout, "naming the class "+c.class, func() error {
			current, err := deployments.Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			current.Spec.Template.Spec.RuntimeClassName = &c.class
			if c.class == "" {
				current.Spec.Template.Spec.RuntimeClassName = nil
			}
			d, err = deployments.Update(ctx, current, metav1.UpdateOptions{})
			return err
		})
		if got := d.Annotations[placementv1alpha1.RuntimeHandlerAnnotation]; got != c.want {
			t.Errorf("with the class %q there is the handler %q, not %q", c.class, got, c.want)
		}
	}
}

// What is preferred lacks the handler. A review, which is sent what a user writes and a forged note with it,
// says so.
func testPlacedByHandler(t *testing.T) {
	ctx := newCluster(t, "byhandler")
	prefersSmall(t, shared, "byhandler", "byhandler-small", "byhandler-big")
	for name, handlers := range map[string][]string{"byhandler-small": nil, "byhandler-big": {"sandbox-of-big"}} {
		report(t, name, func(s *fleetv1alpha1.PhysicalClusterStatus) {
			s.RuntimeHandlers = &fleetv1alpha1.ReportedNames{Names: handlers}
		})
	}
	for name, handler := range map[string]string{"safe": "sandbox-of-big", "elsewhere": "sandbox-of-none"} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
		if _, err := shared.Kube.NodeV1().RuntimeClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wanting := func(class, note string) *appsv1.Deployment {
		d := deployment("a")
		d.Spec.Template.Spec.RuntimeClassName = &class
		d.Annotations = map[string]string{placementv1alpha1.RuntimeHandlerAnnotation: note}
		return d
	}
	for _, c := range []struct{ name, class, note, want string }{
		{"one that the second alone has", "safe", "sandbox-of-none", "byhandler-big"},
		{"one that none has", "elsewhere", "sandbox-of-big", "byhandler-small"},
		{"one that the logical cluster lacks", "unknown", "sandbox-of-big", "byhandler-small"},
	} {
		namespace(t, ctx, "web-"+c.class)
		written, err := as(t, wanting(c.class, c.note)).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		review := &placementv1alpha1.PlacementReview{Spec: placementv1alpha1.PlacementReviewSpec{Object: &runtime.RawExtension{Raw: written}}}
		review, err = shared.Atoll.PlacementV1alpha1().PlacementReviews("web-"+c.class).Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{c.want}, review.Status.PhysicalClusters); diff != "" {
			t.Errorf("%s: the review (-want +got):\n%s", c.name, diff)
		}
		why := placementv1alpha1.RejectedPhysicalCluster{PhysicalCluster: "byhandler-small", Reason: "NoRuntimeClass",
			Message: "it has no runtime class with the handler sandbox-of-big that pods may run with"}
		if said := slices.Contains(review.Status.Rejected, why); said != (c.want == "byhandler-big") {
			t.Errorf("%s: the review rejects %+v", c.name, review.Status.Rejected)
		}
		if got := targetsOf(create(t, ctx, "web-"+c.class, wanting(c.class, c.note))); got != c.want {
			t.Errorf("%s: it is on %q, not %s", c.name, got, c.want)
		}
	}
	// Of what is stored, the note counts.
	review, err := shared.Atoll.PlacementV1alpha1().PlacementReviews("web-safe").Create(ctx,
		&placementv1alpha1.PlacementReview{Spec: placementv1alpha1.PlacementReviewSpec{Anew: true}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"byhandler-big"}, review.Status.PhysicalClusters); diff != "" {
		t.Errorf("what is there, decided anew (-want +got):\n%s", diff)
	}
}

func testAStampIsNoConflict(t *testing.T) {
	ctx := newCluster(t, "stamped")
	policy(t, "stamped", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "us") })
	namespace(t, ctx, "web")
	limits := shared.Kube.CoreV1().LimitRanges("web")
	read, err := limits.Create(ctx, limit("read"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, ctx, "web", deployment("a"))

	max := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	read.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: max}}
	written, err := limits.Update(ctx, read, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("nothing but the stamp came between: %v", err)
	}
	if targetsOf(written) != "west" || len(written.Spec.Limits) != 1 {
		t.Errorf("after the update: on %q, limits %v", targetsOf(written), written.Spec.Limits)
	}
	web.Labels["team"] = "a"
	if _, err := shared.Kube.CoreV1().Namespaces().Update(ctx, web, metav1.UpdateOptions{}); err != nil {
		t.Errorf("nothing but the stamp came between: %v", err)
	}
	read.Spec.Limits = nil
	if _, err := limits.Update(ctx, read, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("somebody else's update came between: %v", err)
	}
	read.ResourceVersion = "999999999"
	if _, err := limits.Update(ctx, read, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a version to come: %v", err)
	}
}

// What is preferred lacks the ingress class, or the class to which it maps the priority class of pods, which it says of what is
// placed there nevertheless. An Ingress that was written first waits, and takes part in the decision.
func testPlacedByClass(t *testing.T) {
	ctx := newCluster(t, "byclass")
	prefersSmall(t, shared, "byclass", "byclass-small", "byclass-big")
	clusters := shared.Atoll.FleetV1alpha1().PhysicalClusters()
	for name, has := range map[string][]string{"byclass-small": nil, "byclass-big": {"of-big"}} {
		server.Eventually(t, waitTimeout, "mapping a class", func() error {
			pc, err := clusters.Get(root(t), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			pc.Spec.Tenancy.PriorityClasses = map[string]string{"high": "of-big", "low": "of-none"}
			_, err = clusters.Update(root(t), pc, metav1.UpdateOptions{})
			return err
		})
		report(t, name, func(s *fleetv1alpha1.PhysicalClusterStatus) {
			s.IngressClasses, s.PriorityClasses = &fleetv1alpha1.ReportedNames{Names: has}, &fleetv1alpha1.ReportedNames{Names: has}
		})
	}
	of := func(priority string) *appsv1.Deployment {
		d := deployment("a")
		d.Spec.Template.Spec.PriorityClassName = priority
		return d
	}
	for _, c := range []struct{ name, ingress, priority, want, why string }{
		{"high", "", "high", "byclass-big", "NoPriorityClass: it has no priority class of-big, to which it maps high"},
		{"low", "", "low", "byclass-small", ""},
		{"unmapped", "", "unmapped", "byclass-small", ""},
		{"ingress", "of-big", "", "byclass-big", "NoIngressClass: it has no ingress class of-big"},
		{"nowhere", "of-none", "", "byclass-small", ""},
	} {
		namespace(t, ctx, c.name)
		if c.ingress != "" {
			ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			ingress.Spec.IngressClassName = &c.ingress
			ingress.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}}}
			if _, err := shared.Kube.NetworkingV1().Ingresses(c.name).Create(ctx, ingress, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		written, err := as(t, of(c.priority)).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		server.Eventually(t, waitTimeout, "what is reported is known", func() error {
			review := &placementv1alpha1.PlacementReview{Spec: placementv1alpha1.PlacementReviewSpec{Object: &runtime.RawExtension{Raw: written}}}
			review, err := shared.Atoll.PlacementV1alpha1().PlacementReviews(c.name).Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			why := ""
			for _, r := range review.Status.Rejected {
				if r.PhysicalCluster == "byclass-small" {
					why = r.Reason + ": " + r.Message
				}
			}
			return expect("the review", c.want+" "+c.why, strings.Join(review.Status.PhysicalClusters, ",")+" "+why)
		})
		// What is placed is decided by what is stored, and what is said of it may be a moment older.
		server.Eventually(t, waitTimeout, "the answer", func() error {
			client, warned := warningClient(t)
			d, err := client.AppsV1().Deployments(c.name).Create(ctx, of(c.priority), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			says := strings.Contains(warned.text(), "no pod starts until it has")
			return expect("answer", fmt.Sprint(c.want, c.priority == "low"), fmt.Sprint(targetsOf(d), says))
		})
		if got := targetsOf(create(t, ctx, c.name, of(c.priority))); got != c.want {
			t.Errorf("%s: it is on %q, not %s", c.name, got, c.want)
		}
	}
}
