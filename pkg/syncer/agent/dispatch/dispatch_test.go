package dispatch_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/dispatch"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// fixture is a Dispatcher whose queues are notes.
type fixture struct {
	*viewtest.World
	d     *dispatch.Dispatcher
	mu    sync.Mutex
	woken []string
}

func (f *fixture) note(queue string, key any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.woken = append(f.woken, fmt.Sprint(queue, " ", key))
}

// take are the keys since it was last called, each once and in order.
func (f *fixture) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.woken)
	woken := slices.Compact(f.woken)
	f.woken = nil
	return woken
}

func newFixture(t *testing.T, above, below []runtime.Object, records ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{World: viewtest.New(t, above, below, records...)}
	f.d = dispatch.New(f.World.View, dispatch.Queues{
		Objects: func(k view.ObjectKey) { f.note("object", k) }, Mirrors: func(k view.MirrorKey) { f.note("mirror", k) },
		Orphans: func(name string) { f.note("orphan", name) }, Events: func(r controller.Request) { f.note("event", r) },
		OrphansChanged: func() {}, Imports: func(r controller.Request) { f.note("import", r) },
		Pods: func(r controller.Request) { f.note("pods", r) }, Isolation: func(name string) { f.note("isolation", name) },
	})
	f.Watch(t)
	return f
}

func change(kind string, old, new *unstructured.Unstructured) syncer.Change {
	k := viewtest.Kind(kind)
	return syncer.Change{Target: viewtest.Target, Kind: k, Placed: k.Copied(), Observed: k.Observed, Old: old, New: new}
}

func expect(t *testing.T, f *fixture, what string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, f.take()); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func TestWhatWaitsForItsOwnerIsLookedAtWhenTheOwnerAppears(t *testing.T) {
	deployment := viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
	f := newFixture(t, nil, []runtime.Object{
		viewtest.CopyOf(deployment, "below-d"), viewtest.Made("ReplicaSet", "app-1", "below-r", "below-d"), viewtest.Made("ReplicaSet", "other", "below-o", "below-x"),
	})
	f.d.Above(change("Deployment", nil, deployment))
	expect(t, f, "the owner came", "object deployments.apps shop|web/app", "mirror replicasets.apps below-r")
}

func TestTheNameOfANamespaceWakesWhatIsInItOnBothSides(t *testing.T) {
	named := viewtest.Namespace()
	unnamed := named.DeepCopy()
	unnamed.SetAnnotations(map[string]string{logicalcluster.AnnotationKey: "shop", placementv1alpha1.TargetsAnnotation: `{"east":{}}`})
	config := viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	f := newFixture(t, []runtime.Object{named, config}, []runtime.Object{viewtest.Made("Pod", "app-1", "below-p", "below-r")})
	f.d.Above(change("Namespace", unnamed, named))
	expect(t, f, "the namespace got its name", "object namespaces shop|web", "object configmaps shop|web/conf", "mirror pods below-p")
	labelled := named.DeepCopy()
	labelled.SetLabels(map[string]string{"a": "b"})
	f.d.Above(change("Namespace", named, labelled))
	expect(t, f, "the namespace got a label", "object namespaces shop|web")
}

func TestPodsElsewhereWakeTheirLogicalCluster(t *testing.T) {
	f := newFixture(t, nil, nil)
	f.d.Start()
	f.take()
	imp := &placementv1alpha1.PodImport{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: placementv1alpha1.PodImportName}}
	if _, err := f.Records.PlacementV1alpha1().PodImports("db").Create(f.Ctx, imp, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "the view has them", func() bool { return len(f.PodImports(viewtest.Cluster)) == 1 })
	viewtest.Eventually(t, "its logical cluster is looked at", func() bool { return slices.Contains(f.take(), "pods shop|") })
}

func TestAHostNameThatIsFreeWakesWhoWantsIt(t *testing.T) {
	ingress := func(name, host string) *unstructured.Unstructured {
		i := viewtest.Logical("Ingress", "web", name, types.UID("uid-of-"+name), `{"east":{}}`)
		i.Object["spec"] = map[string]any{"rules": []any{map[string]any{"host": host}}}
		return i
	}
	f := newFixture(t, []runtime.Object{ingress("same", "a.example.com"), ingress("wild", "*.example.com"), ingress("other", "b.example.com")}, nil)
	theirs := viewtest.Made("Ingress", "theirs", "below-i", "")
	theirs.Object["spec"] = map[string]any{"rules": []any{map[string]any{"host": "a.example.com"}}}
	f.d.Below(change("Ingress", theirs, nil))
	expect(t, f, "it is gone", "object ingresses.networking.k8s.io shop|web/same", "object ingresses.networking.k8s.io shop|web/wild")
}

func TestAnAutoscalerWakesWhatItScales(t *testing.T) {
	scaler := viewtest.Logical("HorizontalPodAutoscaler", "web", "scaler", "s", `{"east":{}}`)
	scaler.Object["spec"] = map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"}}
	f := newFixture(t, nil, nil)
	f.d.Above(change("HorizontalPodAutoscaler", nil, scaler))
	expect(t, f, "it came", "object horizontalpodautoscalers.autoscaling shop|web/scaler", "object deployments.apps shop|web/app")
}

func TestACopyThatIsTamperedWithWakesTheObjectThatItWasTheCopyOf(t *testing.T) {
	config := viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	copied := viewtest.CopyOf(config, "below-c")
	stripped := copied.DeepCopy()
	stripped.SetAnnotations(nil)
	f := newFixture(t, []runtime.Object{config}, []runtime.Object{copied})
	f.d.Below(change("ConfigMap", copied, stripped))
	expect(t, f, "the mark was taken off", "object configmaps shop|web/conf")
	f.d.Below(syncer.Change{Kind: viewtest.Kind("ConfigMap"), Placed: true, Old: copied, New: copied, Own: true})
	expect(t, f, "an own write came back")
}

func TestACopyThatIsGoneFreesWhatIsBelowToBeMirrored(t *testing.T) {
	pod := viewtest.Logical("Pod", "web", "app", "p", `{"east":{"state":"Observed","uid":"below-p","adopted":true}}`)
	copied := viewtest.CopyOf(pod, "below-p")
	f := newFixture(t, nil, []runtime.Object{copied})
	record := viewtest.Copy(pod, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced})
	f.d.Copy(viewtest.KeyOf("Pod", "web", "app"), syncer.CopyChange{Old: record})
	expect(t, f, "its Copy went", "object pods shop|web/app", "mirror pods below-p", "object namespaces shop|web")
}

func TestAnOrphanIsLookedAtWithTheObjectThatItClaims(t *testing.T) {
	config := viewtest.Logical("ConfigMap", "web", "conf", "gone", `{"east":{}}`)
	stray := viewtest.CopyOf(config, "below-c")
	o, _ := syncer.NewOrphan(viewtest.Target, viewtest.ControlPlane, viewtest.Kind("ConfigMap"), stray)
	o.Annotations = map[string]string{logicalcluster.AnnotationKey: "root"}
	f := newFixture(t, nil, []runtime.Object{stray}, o)
	f.d.Above(change("ConfigMap", nil, config))
	expect(t, f, "the claimed object came", "object configmaps shop|web/conf", "orphan "+o.Name)
	f.d.Below(change("ConfigMap", stray, stray))
	expect(t, f, "the orphan changed below", "object configmaps shop|web/conf", "orphan "+o.Name)
}

func TestAtTheStartEverythingIsLookedAt(t *testing.T) {
	config := viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"namespace": viewtest.PhysicalSpace, "name": "e", "uid": "e"},
		"involvedObject": map[string]any{"kind": "Pod", "namespace": viewtest.PhysicalSpace, "name": "app-1", "uid": "below-p"},
	}}
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), config, viewtest.Mirror("app-1", "m", "below-p")},
		[]runtime.Object{viewtest.Made("Pod", "app-1", "below-p", "below-r"), event})
	f.d.Start()
	want := []string{
		"event |" + viewtest.PhysicalSpace + "/e", "mirror pods below-p", "object configmaps shop|web/conf", "object namespaces shop|web",
	}
	got := map[string]bool{}
	viewtest.Eventually(t, fmt.Sprint("enqueued are ", want), func() bool {
		for _, key := range f.take() {
			got[key] = true
		}
		return !slices.ContainsFunc(want, func(key string) bool { return !got[key] })
	})
}
