package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/controller/controllertest"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	limitRanges = schema.GroupVersionResource{Version: "v1", Resource: "limitranges"}
	web         = controller.Request{Cluster: "shop", Namespace: "web", Name: placementv1alpha1.NamespaceUnit}
)

// start is when the clock of a fixture begins.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is the controller over informers that have seen what is stored.
type fixture struct {
	*Controller
	t        *testing.T
	clock    *clocktesting.FakePassiveClock
	kube     *kubefake.Clientset
	atoll    *atollfake.Clientset
	metadata *metadatafake.FakeMetadataClient
	// review is the answer to the question where the namespace would go.
	review placementv1alpha1.PlacementReviewStatus
}

// newFixture runs the informers over what is stored: a Namespace, a Placement, Copies,
// and the metadata of objects.
func newFixture(t *testing.T, stored ...runtime.Object) *fixture {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var kube, atoll, objects []runtime.Object
	for _, name := range []string{"east", "west"} {
		if slices.ContainsFunc(stored, func(o runtime.Object) bool {
			pc, ok := o.(*fleetv1alpha1.PhysicalCluster)
			return ok && pc.Name == name
		}) {
			continue
		}
		pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": name}, Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
		atoll = append(atoll, pc)
	}
	for _, o := range stored {
		switch o := o.(type) {
		case *corev1.Namespace:
			kube = append(kube, o)
			m := &metav1.PartialObjectMetadata{ObjectMeta: *o.ObjectMeta.DeepCopy()}
			m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
			objects = append(objects, m)
		case *metav1.PartialObjectMetadata:
			objects = append(objects, o)
		default:
			atoll = append(atoll, o)
		}
	}
	f := &fixture{
		t: t, clock: clocktesting.NewFakePassiveClock(start),
		kube: kubefake.NewClientset(kube...), atoll: atollfake.NewClientset(atoll...), metadata: metadatafake.NewSimpleMetadataClient(scheme, objects...),
	}
	f.atoll.PrependReactor("create", "placementreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &placementv1alpha1.PlacementReview{Status: f.review}, nil
	})
	placements := f.atoll.PlacementV1alpha1()
	config := Config{
		Kinds: workload.Builtin(),
		Kube:  f.kube, Client: f.atoll, Metadata: f.metadata, Clock: f.clock,
		Namespaces: controller.NewInformer("namespaces", &corev1.Namespace{}, controller.Lists(f.kube.CoreV1().Namespaces()), controller.InformerOptions[*corev1.Namespace]{}),
		PhysicalClusters: controller.NewInformer("physicalclusters", &fleetv1alpha1.PhysicalCluster{}, controller.Lists(f.atoll.FleetV1alpha1().PhysicalClusters()),
			controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{}),
		Policies: controller.NewInformer("policies", &placementv1alpha1.ClusterPlacementPolicy{}, controller.Lists(placements.ClusterPlacementPolicies()),
			controller.InformerOptions[*placementv1alpha1.ClusterPlacementPolicy]{}),
		NamespacePolicies: controller.NewInformer("namespace policies", &placementv1alpha1.PlacementPolicy{}, controller.Lists(placements.PlacementPolicies("")),
			controller.InformerOptions[*placementv1alpha1.PlacementPolicy]{}),
		LogicalClusters: controller.NewInformer("logicalclusters", &tenancyv1alpha1.LogicalCluster{}, controller.Lists(f.atoll.TenancyV1alpha1().LogicalClusters()),
			controller.InformerOptions[*tenancyv1alpha1.LogicalCluster]{}),
		Placements: controller.NewInformer("placements", &placementv1alpha1.Placement{}, controller.Lists(placements.Placements("")),
			controller.InformerOptions[*placementv1alpha1.Placement]{Indexers: Indexers()}),
		Copies: controller.NewInformer("copies", &placementv1alpha1.Copy{}, controller.Lists(placements.Copies("")),
			controller.InformerOptions[*placementv1alpha1.Copy]{}),
		Objects: controller.NewMetadata(f.metadata, []schema.GroupVersionResource{deployments, services, configMaps, limitRanges, endpointSlices}, nil),
	}
	f.Controller = New(config)
	type informer interface {
		Run(context.Context)
		WaitForSync(context.Context) error
	}
	for _, i := range []informer{config.Namespaces, config.PhysicalClusters, config.LogicalClusters, config.Policies, config.NamespacePolicies, config.Placements, config.Copies, config.Objects} {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); i.Run(ctx) }()
		t.Cleanup(func() { stop(); <-done })
		if err := i.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for fake, resources := range map[*clienttesting.Fake][]schema.GroupVersionResource{
		&f.kube.Fake: {corev1.SchemeGroupVersion.WithResource("namespaces")}, &f.metadata.Fake: {deployments, services, configMaps, limitRanges, endpointSlices},
		&f.atoll.Fake: {
			fleetv1alpha1.SchemeGroupVersion.WithResource("physicalclusters"), tenancyv1alpha1.SchemeGroupVersion.WithResource("logicalclusters"),
			placementv1alpha1.SchemeGroupVersion.WithResource("clusterplacementpolicies"), placementv1alpha1.SchemeGroupVersion.WithResource("placementpolicies"),
			placementv1alpha1.SchemeGroupVersion.WithResource("placements"), placementv1alpha1.SchemeGroupVersion.WithResource("copies"),
		},
	} {
		controllertest.AwaitWatches(t, fake, resources...)
	}
	return f
}

// look reconciles the namespace web.
func (f *fixture) look() controller.Result {
	f.t.Helper()
	result, err := f.reconcile(f.t.Context(), web)
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

// writes are all writes so far, in order within each client; events, which objects get
// in no order, are sorted.
func (f *fixture) writes() []string {
	var out []string
	for _, client := range []interface{ Actions() []clienttesting.Action }{f.metadata, f.kube, f.atoll} {
		for _, a := range client.Actions() {
			line := a.GetVerb() + " " + a.GetResource().Resource
			switch a := a.(type) {
			case clienttesting.PatchAction:
				line += " " + a.GetName()
				if client == f.metadata {
					line += " " + string(a.GetPatch())
				}
			case clienttesting.CreateAction: // an update is one, too
				if e, ok := a.GetObject().(*corev1.Event); ok {
					line += fmt.Sprintf(" %s: %s %s", e.InvolvedObject.Name, e.Reason, e.Message)
				}
			}
			if !slices.Contains([]string{"list", "watch", "get"}, a.GetVerb()) && a.GetResource().Resource != "placementreviews" {
				out = append(out, line)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		if strings.HasPrefix(a, "create events") && strings.HasPrefix(b, "create events") {
			return strings.Compare(a, b)
		}
		return 0
	})
	return out
}

func (f *fixture) expect(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.writes()); diff != "" {
		f.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func owned(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: "5", Annotations: map[string]string{logicalcluster.AnnotationKey: "shop"}}
}

func namespace() *corev1.Namespace { return &corev1.Namespace{ObjectMeta: owned("web", "ns-1")} }

// complete is a Namespace that admission has completed for east.
func complete() *corev1.Namespace {
	n := namespace()
	n.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{}}`
	n.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation] = "shop-web-1"
	n.Finalizers = []string{placementv1alpha1.CopiesFinalizer}
	return n
}

func placementOf(clusters ...string) *placementv1alpha1.Placement {
	p := &placementv1alpha1.Placement{ObjectMeta: owned(placementv1alpha1.NamespaceUnit, "p-1")}
	p.Namespace = "web"
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Namespace", Name: "web", UID: "ns-1", Controller: new(true)}}
	if len(clusters) > 0 {
		p.Spec.Decision = &placementv1alpha1.Decision{}
		for _, c := range clusters {
			p.Spec.Decision.PhysicalClusters = append(p.Spec.Decision.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: c})
		}
	}
	return p
}

// undecided is a Placement that admission explained.
func undecided(why string) *placementv1alpha1.Placement {
	p := placementOf()
	p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: "NoneFits", Message: why}}
	return p
}

// object is the metadata of an object that is age seconds old; targets may be empty.
func object(gvk schema.GroupVersionKind, name, targets string, age int) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: owned(name, "uid-"+name)}
	o.SetGroupVersionKind(gvk)
	o.Namespace = "web"
	o.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000-int64(age), 0))
	if targets != "" {
		o.Annotations[placementv1alpha1.TargetsAnnotation] = targets
	}
	return o
}

func deployment(name, targets string, age int) *metav1.PartialObjectMetadata {
	return object(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, name, targets, age)
}

func TestAnUndecidedNamespaceAsksAdmissionWithItsOldestObjectAndRecordsAnEventForEach(t *testing.T) {
	f := newFixture(t, namespace(), undecided("no physical cluster is Ready"), deployment("young", "", 1), deployment("old", "", 9))
	if result := f.look(); result.RequeueAfter != retryInterval {
		t.Errorf("%+v, want another try after %s", result, retryInterval)
	}
	f.expect(
		"patch deployments old {}",
		"create events old: Unplaceable no physical cluster is Ready",
		"create events young: Unplaceable no physical cluster is Ready",
	)
}

func TestAnEventIsNotRepeatedBeforeItsTime(t *testing.T) {
	f := newFixture(t, namespace(), undecided("no physical cluster is Ready"), deployment("web", "", 1))
	events := func() (n int) {
		for _, w := range f.writes() {
			if w == "create events web: Unplaceable no physical cluster is Ready" {
				n++
			}
		}
		return n
	}
	f.look()
	f.look()
	if events() != 1 {
		t.Errorf("%d events at once, want 1", events())
	}
	f.clock.SetTime(f.clock.Now().Add(repeatInterval + time.Second))
	f.look()
	if events() != 2 {
		t.Errorf("%d events after %s, want 2", events(), repeatInterval)
	}
}

// Rules go before the Namespace, and that before what it holds. What has the targets
// of the decision is left alone, and so is what goes where something refers to it.
func TestWhatHasNotTheTargetsOfTheDecisionIsSentThroughAdmission(t *testing.T) {
	waiting := object(schema.GroupVersionKind{Version: "v1", Kind: "Service"}, "front", "", 1)
	limits := object(schema.GroupVersionKind{Version: "v1", Kind: "LimitRange"}, "limits", "", 1)
	unreferenced := object(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "settings", "", 1)
	two := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: owned("two", "cpp-1")}
	two.Spec.Count = new(int32(2))
	f := newFixture(t, namespace(), two, placementOf("east", "west"), waiting, limits, unreferenced,
		deployment("web", `{"east":{},"west":{}}`, 1), deployment("before", `{"east":{}}`, 1))
	if result := f.look(); result.RequeueAfter != retryInterval {
		t.Errorf("%+v, want another look after %s", result, retryInterval)
	}
	f.expect("patch limitranges limits {}", "patch namespaces web {}", "patch services front {}", "patch deployments before {}", "update placements")
}

func TestANamespaceWhosePhysicalNamespaceIsNotRecordedIsSentThroughAdmission(t *testing.T) {
	n := complete()
	delete(n.Annotations, placementv1alpha1.PhysicalNamespaceAnnotation)
	f := newFixture(t, n, placementOf("east"))
	f.look()
	f.expect("patch namespaces web {}", "update placements")
}

func TestAStatusIsWrittenWhenTheOneBeforeIsASecondOld(t *testing.T) {
	f := newFixture(t, complete(), placementOf("east"), deployment("web", `{"east":{}}`, 1))
	f.written.Add(web, f.clock.Now(), writeInterval)
	if result := f.look(); result.RequeueAfter != writeInterval {
		t.Errorf("just after a write: %+v, want another look after %s", result, writeInterval)
	}
	f.expect()
	f.clock.SetTime(f.clock.Now().Add(writeInterval))
	f.look()
	f.expect("update placements")
}

// A policy that no longer permits where a namespace is moves nothing: the status and an
// event say so, once it is certain that it is not one of several edits.
func TestADecisionThatThePoliciesNoLongerPermitIsSaidAndKept(t *testing.T) {
	local := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: owned("local", "cpp-1")}
	local.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": "west"}}}
	own := &placementv1alpha1.PlacementPolicy{ObjectMeta: owned("own", "pp-1")}
	own.Namespace = "web"
	own.Spec.Affinity = []placementv1alpha1.UnitAffinity{{Type: placementv1alpha1.AffinityWith, NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
	elsewhere := own.DeepCopy()
	elsewhere.Namespace = "other"
	foreign := local.DeepCopy()
	foreign.Annotations = map[string]string{logicalcluster.AnnotationKey: "bank"}
	for name, c := range map[string]struct {
		policies []runtime.Object
		status   metav1.ConditionStatus
		reason   string
	}{
		"of the logical cluster":         {[]runtime.Object{local}, metav1.ConditionFalse, placement.ReasonPolicyMismatch},
		"of the namespace":               {[]runtime.Object{own}, metav1.ConditionFalse, placement.ReasonAffinity},
		"of another namespace":           {[]runtime.Object{elsewhere}, metav1.ConditionTrue, "Satisfied"},
		"of another logical cluster":     {[]runtime.Object{foreign}, metav1.ConditionTrue, "Satisfied"},
		"more than is read for decision": {many(placement.MaxPolicies + 1), metav1.ConditionFalse, placement.ReasonInvalidPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(c.policies, complete(), placementOf("east"))...)
			if result := f.look(); c.status == metav1.ConditionFalse && result.RequeueAfter != settleDelay {
				t.Errorf("at first: %+v, want another look after %s", result, settleDelay)
			}
			f.clock.SetTime(f.clock.Now().Add(settleDelay))
			f.look()
			p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied)
			if got == nil || got.Status != c.status || got.Reason != c.reason {
				t.Errorf("%+v, want %s %s", got, c.status, c.reason)
			}
			if diff := cmp.Diff(placementOf("east").Spec, p.Spec); diff != "" {
				t.Errorf("the decision changed:\n%s", diff)
			}
			said := slices.ContainsFunc(f.writes(), func(w string) bool { return strings.Contains(w, "PolicyNotSatisfied") })
			if said != (c.status == metav1.ConditionFalse) {
				t.Errorf("writes %q", f.writes())
			}
		})
	}
}

// many are policies of the namespace that want nothing.
func many(n int) (out []runtime.Object) {
	for i := range n {
		p := &placementv1alpha1.PlacementPolicy{ObjectMeta: owned(fmt.Sprint("p", i), fmt.Sprint("pp-", i))}
		p.Namespace = "web"
		out = append(out, p)
	}
	return out
}

func TestWhatIsLeftAlone(t *testing.T) {
	leaving := complete()
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.Now()), []string{placementv1alpha1.CopiesFinalizer}
	earlier := placementOf("east")
	earlier.OwnerReferences[0].UID = "ns-0"
	deleted := deployment("web", "", 1)
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.Now()), []string{"example.com/hold"}
	ofServer := object(schema.GroupVersionKind{Version: "v1", Kind: "Service"}, "front", "", 1)
	for name, c := range map[string]struct {
		stored []runtime.Object
		want   []string
	}{
		"without a Placement":                           {[]runtime.Object{namespace(), deployment("web", "", 1)}, nil},
		"without a Namespace":                           {[]runtime.Object{placementOf("east"), deployment("web", "", 1)}, nil},
		"the Placement is of an earlier namespace":      {[]runtime.Object{namespace(), earlier, deployment("web", "", 1)}, nil},
		"undecided, and nothing waits":                  {[]runtime.Object{namespace(), undecided("why"), deployment("web", `{"east":{}}`, 1)}, nil},
		"undecided, and the namespace goes":             {[]runtime.Object{leaving, undecided("why"), deployment("web", "", 1)}, nil},
		"an object without targets that is deleted":     {[]runtime.Object{complete(), placementOf("east"), deleted}, []string{"update placements"}},
		"decided, and the namespace goes: status alone": {[]runtime.Object{leaving, placementOf("east"), ofServer}, []string{"update placements"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.stored...)
			f.look()
			f.expect(c.want...)
		})
	}
}

func TestTheStatusSaysWhenEveryCopyIsInPlace(t *testing.T) {
	copied := func(state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		c := &placementv1alpha1.Copy{ObjectMeta: owned("web-east", "c-1")}
		c.Namespace = "web"
		c.Spec.PhysicalCluster = "east"
		c.Spec.Object = placementv1alpha1.ObjectReference{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: "web", UID: "uid-web"}
		c.Status.State = state
		return c
	}
	n := complete()
	onNamespace := copied(placementv1alpha1.CopySynced)
	onNamespace.Name = "namespace-east"
	onNamespace.Spec.Object = placementv1alpha1.ObjectReference{Version: "v1", Resource: "namespaces", Kind: "Namespace", Name: "web", UID: n.UID}
	for state, want := range map[placementv1alpha1.CopyState]metav1.ConditionStatus{
		placementv1alpha1.CopySynced:  metav1.ConditionTrue,
		placementv1alpha1.CopyPending: metav1.ConditionFalse,
		placementv1alpha1.CopyFailed:  metav1.ConditionFalse,
	} {
		f := newFixture(t, n.DeepCopy(), placementOf("east"), deployment("web", `{"east":{}}`, 1), onNamespace.DeepCopy(), copied(state))
		f.look()
		p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if settled := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionSettled); settled == nil || settled.Status != want {
			t.Errorf("with a copy that is %s: Settled is %+v, want %s", state, settled, want)
		}
	}
}

func TestAHeartbeatChangesNoDecision(t *testing.T) {
	t.Parallel()
	at := func(seconds int64, ready metav1.ConditionStatus, message string) *fleetv1alpha1.PhysicalCluster {
		c := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1, ResourceVersion: fmt.Sprint(seconds), Labels: map[string]string{"region": "eu"}}}
		c.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: ready, Message: message, LastTransitionTime: metav1.Unix(seconds, 0)}}
		return c
	}
	old := at(1, metav1.ConditionTrue, "heard of it")
	labelled := at(2, metav1.ConditionTrue, "heard of it")
	labelled.Labels = map[string]string{"region": "us"}
	cordoned := at(2, metav1.ConditionTrue, "heard of it")
	cordoned.Generation = 2
	grown := at(2, metav1.ConditionTrue, "heard of it")
	grown.Status.Nodes = 3
	for name, c := range map[string]struct {
		new  *fleetv1alpha1.PhysicalCluster
		want bool
	}{
		"a heartbeat": {at(2, metav1.ConditionTrue, "heard of it again"), false},
		"silence":     {at(2, metav1.ConditionUnknown, "heard nothing"), true},
		"a label":     {labelled, true},
		"a cordon":    {cordoned, true},
		"a node":      {grown, true},
	} {
		if got := mayChangeDecisions(old, c.new); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func service(name string, age int) *metav1.PartialObjectMetadata {
	return object(schema.GroupVersionKind{Version: "v1", Kind: "Service"}, name, "", age)
}

func TestWhatFollowsOthersAwaitsPodsAndIsDecidedByItselfThen(t *testing.T) {
	waits := placementOf()
	waits.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: placementv1alpha1.ReasonWaitsForPods}}
	made := func(age time.Duration) *metav1.PartialObjectMetadata {
		s := service("web", 0)
		s.CreationTimestamp = metav1.NewTime(start.Add(-age))
		return s
	}
	for name, by := range map[string]time.Duration{"by the same clock": 0, "by one that is behind": 5 * time.Second, "by one that is ahead": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, namespace(), waits.DeepCopy(), made(by))
			for _, after := range []time.Duration{2 * time.Second, 500 * time.Millisecond} {
				if result := f.look(); result.RequeueAfter != after {
					t.Errorf("%+v, want another look after %s", result, after)
				}
				f.expect([]string(nil)...)
				f.clock.SetTime(f.clock.Now().Add(1500 * time.Millisecond))
			}
			f.clock.SetTime(start.Add(2 * time.Second))
			if result := f.look(); result.RequeueAfter != retryInterval {
				t.Errorf("%+v, want another try after %s", result, retryInterval)
			}
			f.expect("patch services web {}")
		})
	}
	t.Run("a server that has started since asks at once", func(t *testing.T) {
		f := newFixture(t, namespace(), waits.DeepCopy(), made(time.Minute))
		f.look()
		f.expect("patch services web {}")
	})
	t.Run("what makes pods asks at once, though it is younger", func(t *testing.T) {
		f := newFixture(t, namespace(), waits.DeepCopy(), made(time.Minute), deployment("young", "", -1))
		f.look()
		f.expect("patch deployments young {}")
	})
}
