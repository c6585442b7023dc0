package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/admission/history"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

func TestInADecidedNamespaceAdmissionMakesNoRequest(t *testing.T) {
	f := placedWorld().start(t)
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
	if err := f.write(shop(), attributes(admission.Create, "deployments.apps", "Deployment", d, nil, "", alice)); err != nil {
		t.Fatal(err)
	}
	if got := d.Annotations[placementv1alpha1.TargetsAnnotation]; got != `{"east":{}}` {
		t.Errorf("targets %q", got)
	}
	sent := d.DeepCopy()
	sent.Annotations = nil
	if err := f.write(shop(), attributes(admission.Update, "deployments.apps", "Deployment", sent, d, "", alice)); err != nil {
		t.Fatal(err)
	}
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "1"}}}
	if err := f.write(shop(), attributes(admission.Create, "pods", "Pod", pod, nil, "", east)); err != nil {
		t.Fatal(err)
	}
	if calls := f.calls(); len(calls) > 0 {
		t.Errorf("requests: %v", calls)
	}
}

func TestAPlacementOfAnEarlierNamespaceDoesNotCount(t *testing.T) {
	w := placedWorld()
	w.namespaces[0].UID = "another"
	f := w.start(t)
	if _, err := f.kube.CoreV1().Namespaces().Create(shop(), &w.namespaces[0], metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
	if err := f.write(shop(), attributes(admission.Create, "deployments.apps", "Deployment", d, nil, "", alice)); err != nil {
		t.Fatal(err)
	}
	if got := d.Annotations[placementv1alpha1.TargetsAnnotation]; got != "" {
		t.Errorf("it has the targets of the earlier namespace: %q", got)
	}
}

// Whoever writes an object, and whatever, brings the decision in force to it; what
// has it already stays untouched.
func TestANewDecisionReachesAnObjectByAnyWrite(t *testing.T) {
	w := placedWorld()
	w.placements[0].Spec.Decision.PhysicalClusters = append(w.placements[0].Spec.Decision.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: "west"})
	stored := metav1.ObjectMeta{
		Name: "x", Namespace: "web", Finalizers: []string{placementv1alpha1.CopiesFinalizer}, UID: "ns",
		Annotations: map[string]string{
			logicalcluster.AnnotationKey: "shop", placementv1alpha1.TargetsAnnotation: `{"east":{}}`,
			placementv1alpha1.PhysicalNamespaceAnnotation: "recorded",
		},
	}
	want := stored.DeepCopy()
	want.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{},"west":{}}`
	for name, by := range map[string]user.Info{"a user": alice, "the server": loopback} {
		for _, c := range []struct {
			resource, kind string
			obj, old       runtime.Object
			got            func(runtime.Object) metav1.ObjectMeta
		}{
			{"deployments.apps", "Deployment", &apps.Deployment{ObjectMeta: *stored.DeepCopy()}, &apps.Deployment{ObjectMeta: *stored.DeepCopy()},
				func(o runtime.Object) metav1.ObjectMeta { return o.(*apps.Deployment).ObjectMeta }},
			{"namespaces", "Namespace", &core.Namespace{ObjectMeta: *stored.DeepCopy()}, &core.Namespace{ObjectMeta: *stored.DeepCopy()},
				func(o runtime.Object) metav1.ObjectMeta { return o.(*core.Namespace).ObjectMeta }},
			{"limitranges", "LimitRange", &core.LimitRange{ObjectMeta: *stored.DeepCopy()}, &core.LimitRange{ObjectMeta: *stored.DeepCopy()},
				func(o runtime.Object) metav1.ObjectMeta { return o.(*core.LimitRange).ObjectMeta }},
		} {
			f := w.start(t)
			for range 2 {
				if err := f.write(shop(), attributes(admission.Update, c.resource, c.kind, c.obj, c.old, "", by)); err != nil {
					t.Fatalf("%s by %s: %v", c.kind, name, err)
				}
				if diff := cmp.Diff(*want, c.got(c.obj)); diff != "" {
					t.Errorf("%s by %s (-want +got):\n%s", c.kind, name, diff)
				}
				c.old = c.obj.DeepCopyObject()
			}
			if calls := f.calls(); len(calls) > 0 {
				t.Errorf("%s by %s: requests %v", c.kind, name, calls)
			}
		}
	}
}

func TestManyNamespacesDecidedAtOnceSpread(t *testing.T) {
	f := world{}.start(t)
	ctx := scope.WithCluster(context.Background(), "shop")
	for _, name := range []string{"a", "b", "c"} {
		pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		if _, err := f.atoll.FleetV1alpha1().PhysicalClusters().Create(ctx, pc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int{}
	for i := range 9 {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), UID: types.UID(fmt.Sprint(i))}}
		if _, err := f.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: ns.Name}}
		gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		a := admission.NewAttributesRecord(d, nil, gvr.GroupVersion().WithKind("Deployment"), ns.Name, "x", gvr, "", admission.Create, nil, false, alice)
		if err := f.write(ctx, a); err != nil {
			t.Fatal(err)
		}
		for name := range stamp.TargetsOf(d.Annotations) {
			counts[name]++
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 3, "b": 3, "c": 3}, counts); diff != "" {
		t.Errorf("namespaces by physical cluster (-want +got):\n%s", diff)
	}
}

func BenchmarkCreateInADecidedNamespace(b *testing.B) {
	f := placedWorld().start(b)
	ctx := shop()
	b.ReportAllocs()
	for b.Loop() {
		d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
		if err := f.write(ctx, attributes(admission.Create, "deployments.apps", "Deployment", d, nil, "", alice)); err != nil {
			b.Fatal(err)
		}
	}
}

// Somebody else has decided, and not stamped the Namespace yet; before that it is
// deleted.
func TestNothingIsPlacedInADecidedNamespaceThatIsDeletedBeforeItIsStamped(t *testing.T) {
	w := placedWorld()
	delete(w.namespaces[0].Annotations, placementv1alpha1.TargetsAnnotation)
	f := w.start(t)
	leaving := w.namespaces[0].DeepCopy()
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"kubernetes"}
	if err := f.kube.Tracker().Add(leaving); err != nil {
		t.Fatal(err)
	}
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
	err := f.Admit(shop(), attributes(admission.Create, "deployments.apps", "Deployment", d, nil, "", alice), nil)
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("creating: %v", err)
	}
	if got := d.Annotations[placementv1alpha1.TargetsAnnotation]; got != "" {
		t.Errorf("it was given the targets %s", got)
	}
}

// A namespace that is deleted between the decision and its stamp takes no stamp any
// more: what was to be placed in it could be neither copied nor ended.
func TestNothingIsPlacedInANamespaceThatIsDeletedWhileItIsDecided(t *testing.T) {
	f := world{}.start(t)
	ctx := shop()
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	if _, err := f.atoll.FleetV1alpha1().PhysicalClusters().Create(ctx, pc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "ns"}}
	if _, err := f.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	f.kube.PrependReactor("patch", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		leaving := ns.DeepCopy()
		leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"kubernetes"}
		if err := f.kube.Tracker().Update(namespaces, leaving, ""); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(namespaces.GroupResource(), "web", errors.New("it was changed"))
	})
	d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
	err := f.Admit(ctx, attributes(admission.Create, "deployments.apps", "Deployment", d, nil, "", alice), nil)
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("creating: %v", err)
	}
	if got := d.Annotations[placementv1alpha1.TargetsAnnotation]; got != "" {
		t.Errorf("it was given the targets %s", got)
	}
}

// What was there before templates were noted is noted with the first change.
func TestADeploymentRemembersTheTemplatesThatItHad(t *testing.T) {
	w := placedWorld()
	with := func(image string) *apps.Deployment {
		d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", UID: "x", Annotations: map[string]string{logicalcluster.AnnotationKey: "shop"}}}
		d.Spec.Template.Spec.Containers = []core.Container{{Name: "c", Image: image}}
		return d
	}
	f := w.start(t)
	old, seen := with("a"), map[string]int{}
	for _, image := range []string{"a", "b", "c", "a", "a"} {
		now := with(image)
		now.Annotations[placementv1alpha1.TemplatesAnnotation] = "forged"
		if err := f.write(shop(), attributes(admission.Update, "deployments.apps", "Deployment", now, old, "", alice)); err != nil {
			t.Fatal(err)
		}
		digest, err := digestOf(&now.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		seen[digest]++
		old = now
	}
	known := history.Parse(old.Annotations[placementv1alpha1.TemplatesAnnotation])
	if len(known) != 3 || len(seen) != 3 {
		t.Errorf("it remembers %v of %v", known, seen)
	}
	for digest := range seen {
		if !known.Has(digest) {
			t.Errorf("it does not remember %s", digest)
		}
	}
}

// The informer may be behind the controller that moves a unit, also in the same server.
func TestWhatIsWrittenWhileItsUnitMovesFollowsThePhaseOfTheDatabase(t *testing.T) {
	way := func(phase placementv1alpha1.TransitionPhase) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{Cause: placementv1alpha1.CausePolicy, Phase: phase, From: []string{"west"}, To: []string{"east"}}
	}
	w := placedWorld()
	w.namespaces[0].Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{},"west":{}}`
	live := w.placements[0].DeepCopy()
	live.Spec.Transition = way(placementv1alpha1.TransitionRemoving)
	w.placements[0].Spec.Transition = way(placementv1alpha1.TransitionStarting)
	f := w.start(t)
	if err := f.atoll.Tracker().Add(live); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who  user.Info
		want []string
	}{
		{alice, []string{"east"}},
		{loopback, []string{"east", "west"}}, // a controller comes again when the informer has caught up
	} {
		d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "web"}}
		if err := f.write(shop(), attributes(admission.Create, "deployments.apps", "Deployment", d, nil, "", c.who)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, stamp.TargetsOf(d.Annotations).Names()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.who.GetName(), diff)
		}
	}
}

// A server that stood still has informers of before: what it stamped by a phase that another server has left, while it
// goes on with what it was at, would have removed what the other one brought back.
func TestAfterAStandstillEverythingIsStampedByWhatTheDatabaseHas(t *testing.T) {
	w := placedWorld()
	live := w.placements[0].DeepCopy() // it came back
	w.placements[0].Spec.Transition = &placementv1alpha1.Transition{Cause: placementv1alpha1.CausePolicy, Phase: placementv1alpha1.TransitionRemoving, From: []string{"east"}, To: []string{"west"}}
	live.Spec.Decision.PhysicalClusters = []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}}
	w.placements[0].Spec.Decision.PhysicalClusters = []placementv1alpha1.DecidedPhysicalCluster{{Name: "west"}}
	f := w.start(t)
	if err := f.atoll.Tracker().Add(live); err != nil {
		t.Fatal(err)
	}
	targets := func() placementv1alpha1.Targets {
		t.Helper()
		old := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "web", UID: "d-1", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`}}}
		d := old.DeepCopy()
		if err := f.write(shop(), attributes(admission.Update, "deployments.apps", "Deployment", d, old, "", loopback)); err != nil {
			t.Fatal(err)
		}
		return stamp.TargetsOf(d.Annotations)
	}
	if got := targets()["east"]; got.State != placementv1alpha1.TargetStateRemoving {
		t.Errorf("by the informer it is %q on east: the test proves nothing", got.State)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.standstill.Run(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		f.clock.SetTime(f.clock.Now().Add(20 * time.Second))
		if stood, _ := f.standstill.Stood(); stood > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it measures nothing")
		}
	}
	if got, ok := targets()["east"]; !ok || got.State != "" {
		t.Errorf("it is %q on east, to which it came back", got.State)
	}
	stop()
	<-done
	f.clock.SetTime(f.clock.Now().Add(5 * time.Second))
	if got := targets()["east"]; got.State != "" {
		t.Errorf("5 s later it is %q on east", got.State)
	}
}
