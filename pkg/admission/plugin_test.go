package admission

import (
	"context"
	"strings"
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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // conversions
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	alice    = &user.DefaultInfo{Name: "alice"}
	master   = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	loopback = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	east     = &user.DefaultInfo{Name: "system:atoll:syncer:east", Groups: []string{"system:atoll:syncers"}}
	impostor = &user.DefaultInfo{Name: "system:atoll:syncer:east"}
)

// fixed is an informer that holds objs from the start.
func fixed[T controller.Object](t testing.TB, list runtime.Object, example T) *controller.Informer[T] {
	t.Helper()
	i := controller.NewInformer("test", example, controller.ListWatch{
		List:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, controller.InformerOptions[T]{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { i.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := i.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	return i
}

// world is what the informers hold; the clients hold nothing and count.
type world struct {
	namespaces []corev1.Namespace
	placements []placementv1alpha1.Placement
	clusters   []fleetv1alpha1.PhysicalCluster
	policies   []placementv1alpha1.PlacementPolicy
	objects    []runtime.Object
	// dynamic has what is read as a whole.
	dynamic dynamic.Interface
}

type fixture struct {
	*Chain
	kube  *kubefake.Clientset
	atoll *atollfake.Clientset
	// metadata has the objects.
	metadata *metadatafake.FakeMetadataClient
	clock    *clocktesting.FakePassiveClock
	// standstill measures once it runs.
	standstill *controller.Standstill
}

func (w world) start(t testing.TB) *fixture {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := &fixture{metadata: metadatafake.NewSimpleMetadataClient(scheme, w.objects...), kube: kubefake.NewClientset(), atoll: atollfake.NewSimpleClientset(), clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	f.standstill = controller.NewStandstill(f.clock)
	c, err := New(Config{
		Kinds: workload.Builtin(),
		Kube:  f.kube, Client: f.atoll, Metadata: f.metadata, Dynamic: w.dynamic,
		Namespaces:        fixed(t, &corev1.NamespaceList{Items: w.namespaces}, &corev1.Namespace{}),
		PhysicalClusters:  fixed(t, &fleetv1alpha1.PhysicalClusterList{Items: w.clusters}, &fleetv1alpha1.PhysicalCluster{}),
		Placements:        fixed(t, &placementv1alpha1.PlacementList{Items: w.placements}, &placementv1alpha1.Placement{}),
		Policies:          fixed(t, &placementv1alpha1.ClusterPlacementPolicyList{}, &placementv1alpha1.ClusterPlacementPolicy{}),
		NamespacePolicies: fixed(t, &placementv1alpha1.PlacementPolicyList{Items: w.policies}, &placementv1alpha1.PlacementPolicy{}),
		LogicalClusters:   fixed(t, &tenancyv1alpha1.LogicalClusterList{}, &tenancyv1alpha1.LogicalCluster{}),
		ControlPlane:      func(context.Context) (string, error) { return "cp", nil },
		Clock:             f.clock, Standstill: f.standstill,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Chain = c
	return f
}

// calls are the requests that the plugin made.
func (f *fixture) calls() []string {
	var out []string
	for _, a := range append(append([]clienttesting.Action{}, f.kube.Actions()...), f.atoll.Actions()...) {
		out = append(out, a.GetVerb()+" "+a.GetResource().Resource)
	}
	return out
}

// write passes one write through both phases.
func (f *fixture) write(ctx context.Context, a admission.Attributes) error {
	if err := f.Admit(ctx, a, nil); err != nil {
		return err
	}
	return f.Validate(ctx, a, nil)
}

// said collects warnings.
type said []string

func (s *said) AddWarning(_, text string) { *s = append(*s, text) }

func in(cluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{logicalcluster.AnnotationKey: cluster}, ResourceVersion: "1"}
}

func placedWorld() world {
	ns := corev1.Namespace{ObjectMeta: in("shop", "web")}
	ns.UID = "ns"
	ns.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{}}`
	p := placementv1alpha1.Placement{ObjectMeta: in("shop", placementv1alpha1.NamespaceUnit)}
	p.Namespace, p.OwnerReferences = "web", []metav1.OwnerReference{owner(&ns)}
	p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}}}
	return world{namespaces: []corev1.Namespace{ns}, placements: []placementv1alpha1.Placement{p}}
}

func shop() context.Context { return scope.WithCluster(context.Background(), "shop") }

func attributes(op admission.Operation, resource, kind string, obj, old runtime.Object, sub string, u user.Info) admission.Attributes {
	gvr := schema.ParseGroupResource(resource).WithVersion("v1")
	return admission.NewAttributesRecord(obj, old, gvr.GroupVersion().WithKind(kind), "web", "x", gvr, sub, op, nil, false, u)
}

func TestWhoAsksDecidesWhatMayBeWritten(t *testing.T) {
	stamped := func() *core.Pod {
		return &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", Finalizers: []string{placementv1alpha1.CopiesFinalizer},
			Annotations: map[string]string{logicalcluster.AnnotationKey: "shop", placementv1alpha1.TargetsAnnotation: `{"east":{}}`}}}
	}
	viewing := func(target string) context.Context { return scope.WithTarget(shop(), target) }
	for _, c := range []struct {
		name string
		ctx  context.Context
		user user.Info
		// cleared is whether removing the system's metadata has an effect.
		cleared bool
		err     string
	}{
		{"a user", shop(), alice, false, ""},
		{"an admin is a user", shop(), master, false, ""},
		{"a name without its group is a user", shop(), impostor, false, ""},
		{"the server", shop(), loopback, true, ""},
		{"the server as the syncer of east", viewing("east"), loopback, false, "did not mirror"},
		{"the syncer of east", viewing("east"), east, false, "did not mirror"},
		{"the syncer of east in the view of west", viewing("west"), east, false, "may not act as that of west"},
		{"a user in the view of east", viewing("east"), alice, false, "is for its syncer"},
		{"an admin in the view of east", viewing("east"), master, false, "is for its syncer"},
		{"anyone without a logical cluster", context.Background(), alice, false, "must name one logical cluster"},
		{"anyone in all logical clusters", scope.WithCluster(context.Background(), scope.Wildcard), loopback, false, "must name one logical cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := placedWorld().start(t)
			sent := stamped()
			sent.Annotations, sent.Finalizers = nil, nil
			err := f.Admit(c.ctx, attributes(admission.Update, "pods", "Pod", sent, stamped(), "status", c.user), nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := stamped().ObjectMeta
			if c.cleared {
				want.Finalizers, want.Annotations = nil, map[string]string{logicalcluster.AnnotationKey: "shop"}
			}
			if diff := cmp.Diff(want, sent.ObjectMeta); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestABindingCannotCarryTheSystemsMetadata(t *testing.T) {
	f := placedWorld().start(t)
	binding := &core.Binding{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", Annotations: map[string]string{
		placementv1alpha1.TargetsAnnotation: `{"west":{}}`, "note": "mine"}}}
	if err := f.write(shop(), attributes(admission.Create, "pods", "Binding", binding, nil, "binding", alice)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"note": "mine"}, binding.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANamespaceThatIsBeingDeletedIsAskedForUntilTheInformerKnows(t *testing.T) {
	w := placedWorld()
	f := w.start(t)
	ns := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	del := admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Namespace"), "web", "web", ns, "", admission.Delete, nil, false, alice)
	if err := f.Admit(shop(), del, nil); err != nil {
		t.Fatal(err)
	}
	live := w.namespaces[0].DeepCopy()
	live.Status.Phase = corev1.NamespaceTerminating
	if _, err := f.kube.CoreV1().Namespaces().Create(shop(), live, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func() error {
		cm := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
		return f.Admit(shop(), attributes(admission.Create, "configmaps", "ConfigMap", cm, nil, "", alice), nil)
	}
	err := create()
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("creating: %v", err)
	}
	f.clock.SetTime(f.clock.Now().Add(leavingTTL + time.Second))
	if err := create(); err != nil {
		t.Errorf("later the informer is believed again: %v", err)
	}
}

func TestASyncerReportsTheEndOfANamespace(t *testing.T) {
	w := placedWorld()
	w.namespaces[0].Status.Phase = corev1.NamespaceTerminating
	f := w.start(t)
	if _, err := f.kube.CoreV1().Namespaces().Create(shop(), &w.namespaces[0], metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	event := &core.Event{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "1"}}}
	if err := f.write(shop(), attributes(admission.Create, "events", "Event", event.DeepCopy(), nil, "", east)); err != nil {
		t.Errorf("by the syncer: %v", err)
	}
	if err := f.write(shop(), attributes(admission.Create, "events", "Event", event, nil, "", alice)); !apierrors.IsForbidden(err) {
		t.Errorf("by a user: %v", err)
	}
}

func TestTheSyncerOfAForgottenPhysicalClusterGetsAnErrorThatSaysSo(t *testing.T) {
	w := placedWorld()
	pc := fleetv1alpha1.PhysicalCluster{ObjectMeta: in("root", "east")}
	pc.Spec.Forget = true
	w.clusters = []fleetv1alpha1.PhysicalCluster{pc}
	f := w.start(t)
	c := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}, Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}
	for name, by := range map[string]struct {
		ctx  context.Context
		user user.Info
	}{"pull": {shop(), east}, "push": {scope.WithTarget(shop(), "east"), loopback}} {
		err := f.write(by.ctx, attributes(admission.Create, "copies.placement.atoll.dev", "Copy", c.DeepCopy(), nil, "", by.user))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "physical cluster east was given up (spec.forget is set)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.write(shop(), attributes(admission.Create, "copies.placement.atoll.dev", "Copy", c, nil, "", loopback)); err != nil {
		t.Errorf("the server itself, which declares it gone: %v", err)
	}
}

func TestACopyIsTakenOnlyOfAnObjectThatIsHereForItsSyncer(t *testing.T) {
	w := placedWorld()
	deployment := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: in("shop", "here")}
	deployment.Namespace, deployment.UID = "web", "u"
	deployment.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{"state":"Removing"}}`
	elsewhere := deployment.DeepCopy()
	elsewhere.Name, elsewhere.Annotations[placementv1alpha1.TargetsAnnotation] = "elsewhere", `{"west":{}}`
	mirrored := deployment.DeepCopy()
	mirrored.Name, mirrored.Annotations[placementv1alpha1.TargetsAnnotation] = "mirrored", `{"east":{"state":"Observed","uid":"1"}}`
	w.objects = []runtime.Object{deployment, elsewhere, mirrored}
	f := w.start(t)
	for _, c := range []struct {
		what, name string
		uid        types.UID
		state      placementv1alpha1.CopyState
		refused    bool
	}{
		{"an object that is here", "here", "u", placementv1alpha1.CopyPending, false},
		{"another one of the name", "here", "before", placementv1alpha1.CopyPending, true},
		{"one that nobody knows", "unknown", "u", placementv1alpha1.CopyPending, true},
		{"one that nobody knows, which is gone below", "unknown", "u", placementv1alpha1.CopyRemoved, false},
		{"an object for another physical cluster", "elsewhere", "u", placementv1alpha1.CopyPending, true},
		{"one that was mirrored", "mirrored", "u", placementv1alpha1.CopyPending, true},
	} {
		obj := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
		obj.Spec = placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{
			Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: c.name, UID: c.uid,
		}}
		obj.Status.State = c.state
		err := f.write(shop(), attributes(admission.Create, "copies.placement.atoll.dev", "Copy", obj, nil, "", east))
		if c.refused != apierrors.IsConflict(err) || !c.refused && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// What is acknowledged is that something is gone from a place: one that nobody may make up.
func TestWhereACopyIsIsRecordedOnceAndBeforeItIsAcknowledged(t *testing.T) {
	w := placedWorld()
	w.namespaces[0].Annotations[placementv1alpha1.PhysicalNamespaceAnnotation] = "here"
	f := w.start(t)
	if _, err := f.kube.CoreV1().Namespaces().Create(t.Context(), w.namespaces[0].DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	record := func(place string, state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		obj := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
		obj.Spec = placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{
			Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Name: "conf", UID: "u",
		}}
		obj.Status.State, obj.Status.PhysicalNamespace = state, place
		return obj
	}
	accepted := func(err error) bool { return err == nil }
	for _, c := range []struct {
		before, place string
		state         placementv1alpha1.CopyState
		as            func(error) bool
	}{
		{"", "here", placementv1alpha1.CopyPending, accepted},
		{"", "", placementv1alpha1.CopyFailed, accepted},
		{"", "made-up", placementv1alpha1.CopyPending, apierrors.IsConflict},
		{"", "made-up", placementv1alpha1.CopyRemoved, apierrors.IsConflict},
		{"", "", placementv1alpha1.CopyRemoved, apierrors.IsConflict},
		{"", "here", placementv1alpha1.CopyRemoved, accepted},
		{"before", "before", placementv1alpha1.CopyRemoved, accepted}, // it was made in a namespace of that name before
		{"before", "here", placementv1alpha1.CopyRemoved, apierrors.IsForbidden},
	} {
		err := f.write(shop(), attributes(admission.Update, "copies.placement.atoll.dev", "Copy",
			record(c.place, c.state), record(c.before, placementv1alpha1.CopyPending), "", east))
		if !c.as(err) {
			t.Errorf("from %q to %q, %s: %v", c.before, c.place, c.state, err)
		}
	}
	if err := f.write(shop(), attributes(admission.Create, "copies.placement.atoll.dev", "Copy", record("", placementv1alpha1.CopyRemoved), nil, "", east)); !apierrors.IsConflict(err) {
		t.Errorf("nothing says of what it is gone: %v", err)
	}
}

// A quota may be admitted before its namespace is decided, and stored after that.
func TestWhatRulesIsStampedBeforeTheFirstThingThatItRulesIsRecorded(t *testing.T) {
	w := placedWorld()
	partial := func(kind, name, targets string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: in("shop", name)}
		if o.Namespace, o.UID = "web", types.UID(name); targets != "" {
			o.Annotations[placementv1alpha1.TargetsAnnotation] = targets
		}
		return o
	}
	w.objects = []runtime.Object{partial("ResourceQuota", "late", ""), partial("LimitRange", "late", ""),
		partial("ConfigMap", "config", `{"east":{}}`), partial("Pod", "first", `{"east":{}}`), partial("Pod", "second", `{"east":{}}`)}
	f := w.start(t)
	for _, err := range []error{
		f.kube.Tracker().Add(w.namespaces[0].DeepCopy()),
		f.atoll.Tracker().Add(w.placements[0].DeepCopy()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	patched := func() (out []string) {
		for _, a := range f.metadata.Actions() {
			if a.GetVerb() == "patch" || a.GetVerb() == "list" {
				out = append(out, a.GetVerb()+" "+a.GetResource().Resource)
			}
		}
		f.metadata.ClearActions()
		return out
	}
	for _, c := range []struct {
		resource, kind, name string
		want                 []string
	}{
		{"configmaps", "ConfigMap", "config", nil}, // rules are not for it
		{"pods", "Pod", "first", []string{"list limitranges", "patch limitranges", "list resourcequotas", "patch resourcequotas"}},
		{"pods", "Pod", "second", nil},
	} {
		obj := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
		obj.Spec = placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{
			Version: "v1", Resource: c.resource, Kind: c.kind, Name: c.name, UID: types.UID(c.name),
		}}
		obj.Status.State = placementv1alpha1.CopyPending
		if err := f.write(shop(), attributes(admission.Create, "copies.placement.atoll.dev", "Copy", obj, nil, "", east)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, patched()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	quotas := schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	quota, err := f.metadata.Resource(quotas).Namespace("web").Get(t.Context(), "late", metav1.GetOptions{})
	if err != nil || quota.Annotations[placementv1alpha1.TargetsAnnotation] != `{"east":{}}` {
		t.Errorf("the quota has %v, %v", quota.GetAnnotations(), err)
	}
}

// A quota is stamped before its Namespace, which was deleted in between.
func TestWhatRulesANamespaceThatWasNeverPlacedCanBeAcknowledgedAsRemoved(t *testing.T) {
	w := placedWorld()
	delete(w.namespaces[0].Annotations, placementv1alpha1.TargetsAnnotation)
	quota := func(name, targets string) *metav1.PartialObjectMetadata {
		q := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: in("shop", name)}
		q.Namespace, q.UID, q.Annotations[placementv1alpha1.TargetsAnnotation] = "web", "u", targets
		return q
	}
	w.objects = []runtime.Object{quota("here", `{"east":{}}`), quota("elsewhere", `{"west":{}}`)}
	f := w.start(t)
	if _, err := f.kube.CoreV1().Namespaces().Create(t.Context(), w.namespaces[0].DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		physical string
		refused  func(error) bool
	}{
		{"here", "", func(err error) bool { return err == nil }},
		{"here", "guessed", apierrors.IsConflict},
		{"elsewhere", "", apierrors.IsNotFound},
		{"unknown", "", apierrors.IsNotFound},
	} {
		obj := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
		obj.Spec = placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{
			Version: "v1", Resource: "resourcequotas", Kind: "ResourceQuota", Name: c.name, UID: "u",
		}}
		obj.Status.State, obj.Status.PhysicalNamespace = placementv1alpha1.CopyRemoved, c.physical
		if err := f.write(shop(), attributes(admission.Create, "copies.placement.atoll.dev", "Copy", obj, nil, "", east)); !c.refused(err) {
			t.Errorf("%s in %q: %v", c.name, c.physical, err)
		}
	}
}

// A controller below has adopted the Pod, and the watch cache has not heard of that.
func TestTheCopyOfAnObjectThatWasAdoptedSinceIsRefused(t *testing.T) {
	w := placedWorld()
	pod := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: in("shop", "here")}
	pod.Namespace, pod.UID = "web", "u"
	pod.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{"state":"Observed","uid":"1","adopted":true}}`
	w.objects = []runtime.Object{pod}
	f := w.start(t)
	f.metadata.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.(clienttesting.GetActionImpl).GetOptions.ResourceVersion != "0" {
			return false, nil, nil
		}
		before := pod.DeepCopy()
		before.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{}}`
		return true, before, nil
	})
	obj := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
	obj.Spec = placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{
		Version: "v1", Resource: "pods", Kind: "Pod", Name: "here", UID: "u",
	}}
	obj.Status.State = placementv1alpha1.CopyPending
	if err := f.write(shop(), attributes(admission.Create, "copies.placement.atoll.dev", "Copy", obj, nil, "", east)); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
}

// Its syncer was given a list that lacks the first mirror, which has the second name.
func TestAnObjectIsMirroredOnce(t *testing.T) {
	w := placedWorld()
	first := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: in("shop", "app-1.east")}
	first.Namespace = "web"
	first.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{"state":"Observed","uid":"below-1"}}`
	w.objects = []runtime.Object{first}
	f := w.start(t)
	for _, c := range []struct {
		name, uid string
		refused   bool
	}{
		{"app-1", "below-1", true},
		{"app-1", "below-2", false},
		{"app-2", "below-1", false}, // of a name that its mirror cannot have
	} {
		pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: "web", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: c.uid}}}
		err := f.write(shop(), attributes(admission.Create, "pods", "Pod", pod, nil, "", east))
		if c.refused != apierrors.IsConflict(err) || !c.refused && err != nil {
			t.Errorf("%s of %s: %v", c.name, c.uid, err)
		}
	}
}

func TestWhatLaterPluginsChangeIsRefused(t *testing.T) {
	f := placedWorld().start(t)
	old := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", Annotations: map[string]string{
		logicalcluster.AnnotationKey: "shop", placementv1alpha1.TargetsAnnotation: `{"east":{}}`}}}
	for _, c := range []struct {
		key, value string
		refused    func(error) bool
	}{
		{placementv1alpha1.TargetsAnnotation, `{"west":{}}`, apierrors.IsConflict},
		{placementv1alpha1.TargetsAnnotation, `{"east":{},"west":{}}`, apierrors.IsConflict},
		{placementv1alpha1.TargetsAnnotation, ``, apierrors.IsConflict},
		{logicalcluster.AnnotationKey, "other", apierrors.IsForbidden},
	} {
		changed := old.DeepCopy()
		changed.Annotations[c.key] = c.value
		if err := f.Validate(shop(), attributes(admission.Update, "pods", "Pod", changed, old, "", alice), nil); !c.refused(err) {
			t.Errorf("%s was changed to %q: %v", c.key, c.value, err)
		}
	}
}
