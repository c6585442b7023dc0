package admission

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestWhatFollowsAwaitsPodsUnlessTheControllerAsksOnceMore(t *testing.T) {
	none, left := &placementv1alpha1.Placement{}, &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{UID: "p"}}
	for _, kind := range workload.Builtin().All() {
		if kind.Role != workload.Placed {
			continue
		}
		for _, c := range []struct {
			name            string
			stored          *placementv1alpha1.Placement
			dryRun, retried bool
			want            bool
		}{
			{"a user creates it", none, false, false, true},
			{"a user creates it where others wait", left, false, false, true},
			{"a dry run", none, true, false, false},
			{"a dry run where others wait", left, true, false, false},
			{"the controller asks, and nobody has before", none, false, true, true},
			{"the controller asks once more", left, false, true, false},
		} {
			q := question{kind: kind, dryRun: c.dryRun, retried: c.retried}
			if got := q.awaitsPods(c.stored); got != (c.want && kind.Follows()) {
				t.Errorf("%s, %s: %t", kind.Kind, c.name, got)
			}
		}
	}
}

// emptyWorld has an empty namespace web, east, and west, which alone has the class fast. What
// is waiting is what the server has besides.
func emptyWorld(t *testing.T, ready metav1.ConditionStatus, waiting ...runtime.Object) *fixture {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range workload.Builtin().All() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	f := world{dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, waiting...)}.start(t)
	for _, name := range []string{"east", "west"} {
		pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: ready}}
		for _, kind := range workload.Builtin().All() {
			pc.Status.APIs = append(pc.Status.APIs, kind.API())
		}
		if name == "west" {
			pc.Status.StorageClasses = []string{"fast"}
		}
		if _, err := f.atoll.FleetV1alpha1().PhysicalClusters().Create(shop(), pc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.kube.CoreV1().Namespaces().Create(shop(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "ns"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.atoll.PrependReactor("create", "placements", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(metav1.Object).SetUID(types.UID("p"))
		return false, nil, nil
	})
	return f
}

// scheduled is what the Placement of web says; empty if there is none.
func (f *fixture) scheduled(t *testing.T) string {
	t.Helper()
	list, err := f.atoll.PlacementV1alpha1().Placements("web").List(shop(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return ""
	}
	c := meta.FindStatusCondition(list.Items[0].Status.Conditions, placementv1alpha1.ConditionScheduled)
	return string(c.Status) + " " + c.Reason
}

func TestWhatFollowsLeavesItsUnitToWhatItFollows(t *testing.T) {
	const waits = "False " + placementv1alpha1.ReasonWaitsForPods
	type write struct {
		op     admission.Operation
		kind   string
		by     user.Info
		dryRun bool
	}
	service := write{admission.Create, "Service", alice, false}
	again := write{admission.Update, "Service", loopback, false}
	for _, c := range []struct {
		name   string
		ready  metav1.ConditionStatus
		writes []write
		// want are the targets after each, and what the Placement says.
		want    []string
		warning string
	}{
		{"a user creates it", "True", []write{service}, []string{" " + waits}, ""},
		{"the server creates it", "True", []write{{admission.Create, "Service", loopback, false}}, []string{" " + waits}, ""},
		{"a user updates what waits", "True", []write{service, {admission.Update, "Service", alice, false}}, []string{" " + waits, " " + waits}, ""},
		{"a dry run", "True", []write{{admission.Create, "Service", alice, true}}, []string{`{"east":{}} `}, ""},
		{"two of them", "True", []write{service, service}, []string{" " + waits, " " + waits}, ""},
		{"the controller asks once more", "True", []write{service, again}, []string{" " + waits, `{"east":{}} True Decided`}, ""},
		{"the controller asks for what nobody decided", "True", []write{again, again}, []string{" " + waits, `{"east":{}} True Decided`}, ""},
		{"what makes pods comes", "True", []write{service, {admission.Create, "Deployment", alice, false}}, []string{" " + waits, `{"east":{}} True Decided`}, ""},
		{"nothing fits it", "False", []write{service}, []string{" False NoPhysicalClusterFits"}, "namespace web is not placed yet"},
		{"nothing fits it when the controller asks once more", "False", []write{service, again},
			[]string{" False NoPhysicalClusterFits", " False NoPhysicalClusterFits"}, "namespace web is not placed yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := emptyWorld(t, c.ready)
			var warned said
			ctx := warning.WithWarningRecorder(shop(), &warned)
			var got []string
			for _, w := range c.writes {
				obj := runtime.Object(&core.Service{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}})
				resource := "services"
				if w.kind == "Deployment" {
					obj, resource = &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}, "deployments.apps"
				}
				got = append(got, f.answer(t, ctx, w.op, resource, w.kind, obj, w.dryRun, w.by)+" "+f.scheduled(t))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("targets, and what the Placement says (-want +got):\n%s", diff)
			}
			if c.warning == "" && len(warned) > 0 || c.warning != "" && !slices.ContainsFunc(warned, func(s string) bool { return strings.HasPrefix(s, c.warning) }) {
				t.Errorf("warnings %q, want %q", warned, c.warning)
			}
		})
	}
}

// answer writes an object and returns the targets of the answer.
func (f *fixture) answer(t *testing.T, ctx context.Context, op admission.Operation, resource, kind string, obj runtime.Object, dryRun bool, by user.Info) string {
	t.Helper()
	var old runtime.Object
	if op == admission.Update {
		old = obj.DeepCopyObject()
	}
	gvr := schema.ParseGroupResource(resource).WithVersion("v1")
	if err := f.Admit(ctx, admission.NewAttributesRecord(obj, old, gvr.GroupVersion().WithKind(kind), "web", "x", gvr, "", op, nil, dryRun, by), nil); err != nil {
		t.Fatal(err)
	}
	return obj.(metav1.Object).GetAnnotations()[placementv1alpha1.TargetsAnnotation]
}

func TestWhatMakesPodsIsDecidedWithWhatAwaitsIt(t *testing.T) {
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{"name": "data", "namespace": "web"},
		"spec":     map[string]any{"storageClassName": "fast"},
	}}
	f := emptyWorld(t, metav1.ConditionTrue, claim)
	waits := &core.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "web"}}
	if got := f.answer(t, shop(), admission.Create, "persistentvolumeclaims", "PersistentVolumeClaim", waits, false, alice); got != "" {
		t.Errorf("a claim is placed before what mounts it: %s", got)
	}
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
	if got := f.answer(t, shop(), admission.Create, "deployments.apps", "Deployment", d, false, alice); got != `{"west":{}}` {
		t.Errorf("it is on %s, without the class of the claim", got)
	}
}
