package view_test

import (
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
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestTheNamespacesThatShouldBeThereAreThoseOfTheRecords(t *testing.T) {
	record := func(kind, name string, uid types.UID, state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		namespace := "web"
		if kind == "Namespace" {
			namespace = ""
		}
		return viewtest.Copy(viewtest.Logical(kind, namespace, name, "u-"+uid, "{}"), placementv1alpha1.CopyStatus{PhysicalUID: uid, State: state})
	}
	comesBack := record("Namespace", "g", "7", placementv1alpha1.CopyPending) // while the one that was left is being deleted there
	comesBack.Status.Reason = placementv1alpha1.ReasonTerminating
	w := viewtest.New(t, nil, nil, comesBack,
		record("Namespace", "a", "1", placementv1alpha1.CopySynced), record("Namespace", "b", "2", placementv1alpha1.CopyFailed),
		record("Namespace", "c", "", placementv1alpha1.CopyPending), record("Namespace", "d", "4", placementv1alpha1.CopyRemoving),
		record("Namespace", "e", "5", placementv1alpha1.CopyRemoved), record("ConfigMap", "f", "6", placementv1alpha1.CopySynced))
	w.Watch(t)
	if got := w.CountNamespaces(); got != 2 {
		t.Errorf("%d, not 2", got)
	}
}

func TestWhatIsAboveIsFoundForWhatIsBelowWhetherItIsACopyOrMirrored(t *testing.T) {
	app := viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
	copied := viewtest.CopyOf(app, "below-d")
	old := viewtest.CopyOf(viewtest.Logical("Deployment", "web", "again", "first", `{"east":{}}`), "below-first")
	again := viewtest.Logical("Deployment", "web", "again", "second", `{"east":{}}`)
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace(), app, again, viewtest.Mirror("app-1", "m", "below-p")}, []runtime.Object{copied, old})
	w.Watch(t)
	for below, want := range map[types.UID]types.UID{"below-d": "d", "below-p": "m", "below-first": "", "below-x": ""} {
		if got, ok := w.UIDAbove(below); got != want || ok != (want != "") {
			t.Errorf("%s is %q above, not %q", below, got, want)
		}
	}
	if owner, _ := w.Owner("below-d"); owner.Name != "app" || owner.Deleting {
		t.Errorf("as an owner it is %+v", owner)
	}
	if n := w.NamespaceOf(viewtest.PhysicalSpace); n == nil || n.GetName() != "web" || w.NamespaceOf("other") != nil {
		t.Errorf("the namespace is %v", n)
	}
}

func TestNotAllThatCarriesAMarkIsACopy(t *testing.T) {
	app := viewtest.Logical("Pod", "web", "app", "p", `{"east":{}}`)
	gone := viewtest.Logical("Pod", "web", "gone", "g", `{"east":{}}`)
	adopted := viewtest.Logical("Pod", "web", "adopted", "a", `{"east":{"state":"Observed","uid":"below-a","adopted":true}}`)
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace(), app, adopted}, nil)
	w.Watch(t)
	pods := viewtest.Kind("Pod").GroupVersionResource()
	for name, c := range map[string]struct {
		obj  *unstructured.Unstructured
		want bool
	}{
		"of an object that is there":    {viewtest.CopyOf(app, "below-p"), true},
		"of one that is gone":           {viewtest.CopyOf(gone, "below-g"), false},
		"adopted by a controller below": {viewtest.CopyOf(adopted, "below-a"), false},
		"without a mark":                {viewtest.Made("Pod", "app", "below-q", "below-r"), false},
	} {
		if got := w.IsCopy(pods, c.obj); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOwnWritesAreSeenBeforeTheWatchesBringThemBackAndNotTakenForThoseOfOthers(t *testing.T) {
	config := viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	w := viewtest.New(t, []runtime.Object{config}, nil)
	w.Watch(t)
	changes := make(chan syncer.Change, 100)
	w.Handle(view.Handlers{
		Above: func(syncer.Change) {}, Below: func(c syncer.Change) { changes <- c },
		Copy: func(view.ObjectKey, syncer.CopyChange) {},
	})
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	r := controller.Request{Namespace: viewtest.PhysicalSpace, Name: "conf"}
	if _, ok := w.CopyBelow(key, r); ok {
		t.Fatal("there is a copy before it was made")
	}
	written := viewtest.CopyOf(config, "below-c")
	written.SetResourceVersion("7")
	w.WrittenBelow.Put(key, written)
	if got, ok := w.CopyBelow(key, r); !ok || got.GetUID() != "below-c" {
		t.Fatal("the own write is not seen")
	}
	if err := w.Below.Tracker().Create(key.Resource, written, viewtest.PhysicalSpace); err != nil {
		t.Fatal(err)
	}
	if c := <-changes; !c.Own || c.Old != nil {
		t.Errorf("the own write comes back as that of another: %+v", c)
	}
	theirs := written.DeepCopy()
	theirs.SetResourceVersion("8")
	if err := w.Below.Tracker().Update(key.Resource, theirs, viewtest.PhysicalSpace); err != nil {
		t.Fatal(err)
	}
	if c := <-changes; c.Own || c.Old == nil {
		t.Errorf("a write of somebody else is taken for an own one: %+v", c)
	}
	if w.WrittenBelow.Len() != 0 {
		t.Error("it is remembered though it came back")
	}
}

func TestAKeyNamesTheObjectThatACopyOrAMarkIsOf(t *testing.T) {
	w := viewtest.New(t, nil, nil)
	for _, obj := range []*unstructured.Unstructured{viewtest.Namespace(), viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)} {
		kind := viewtest.Kind(obj.GetKind())
		want := view.KeyOf(kind, obj)
		if got, ok := w.KeyOfCopy(viewtest.Copy(obj, placementv1alpha1.CopyStatus{})); !ok || got != want {
			t.Errorf("of its Copy: %s, not %s", got, want)
		}
		mark, _ := syncer.MarkOf(kind.GroupResource(), viewtest.CopyOf(obj, "below"))
		if diff := cmp.Diff(want, view.KeyOfMark(kind, mark)); diff != "" {
			t.Errorf("of its mark (-want +got)\n%s", diff)
		}
	}
	other := viewtest.Copy(viewtest.Namespace(), placementv1alpha1.CopyStatus{})
	other.Spec.Object.Resource = "things"
	if key, ok := w.KeyOfCopy(other); ok {
		t.Errorf("a resource that has no copies has one: %s", key)
	}
}

// What is made below for Services elsewhere is of those who import them, as copies are of those
// whom they belong to.
func TestWhatMayBeHeldGrowsWithCopiesAndImports(t *testing.T) {
	imported := func(name string) *placementv1alpha1.ServiceImport {
		return &placementv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Annotations: map[string]string{logicalcluster.AnnotationKey: viewtest.Cluster.String()}}}
	}
	app := viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
	w := viewtest.New(t, nil, []runtime.Object{viewtest.CopyOf(app, "below-d"), viewtest.CopyOf(viewtest.Logical("Deployment", "web", "other", "o", `{"east":{}}`), "below-o")},
		viewtest.Copy(app, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced}), imported("a"), imported("b"))
	placed := make(chan int, 100)
	w.View = view.New(view.Config{Target: viewtest.Target, ControlPlane: viewtest.ControlPlane, Up: w.Up(), Down: w.Down(),
		Least: controller.Held{Objects: 1, Bytes: 1 << 30},
		More:  func(n int) controller.Held { placed <- n; return controller.Held{Objects: 10, Bytes: 1 << 30} },
	}, workload.Builtin(), func(workload.Kind) bool { return true })
	w.Watch(t)
	if n := <-placed; n != 3 {
		t.Errorf("it is asked for %d Copies and imports, want 3", n)
	}
	if err := w.Excess(); err != nil {
		t.Error(err)
	}
}

// By whom a mirror waits is known from the first word of it below until it is gone above.
func TestTheLogicalClusterOfAMirrorIsKnownForAsLongAsItIsAnywhere(t *testing.T) {
	namespace := viewtest.Namespace()
	w := viewtest.New(t, []runtime.Object{namespace, viewtest.Mirror("left", "above", "gone-below")}, []runtime.Object{
		viewtest.CopyOf(namespace, "below-n"), viewtest.Made("Pod", "app-1", "new-below", "owner"),
	})
	w.Watch(t)
	for uid, want := range map[types.UID]logicalcluster.Name{"new-below": viewtest.Cluster, "gone-below": viewtest.Cluster, "unknown": ""} {
		viewtest.Eventually(t, "the logical cluster of "+string(uid), func() bool {
			return w.ClusterOf(view.MirrorKey{Resource: view.Pods, UID: uid}) == want
		})
	}
}
