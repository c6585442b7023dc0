package mirrors

import (
	"errors"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var replicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}

func object(apiVersion, kind, namespace, name, targets string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7",
			Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: targets, logicalcluster.AnnotationKey: "shop"}},
	}
}

func newMetadata(t *testing.T, objects ...runtime.Object) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metadatafake.NewSimpleMetadataClient(scheme, objects...)
}

func TestWhatIsMirroredEndsByWhatTheServerHas(t *testing.T) {
	t.Parallel()
	const mirror = `{"east":{"state":"Observed","uid":"p"}}`
	for name, c := range map[string]struct {
		targets   string
		namespace string // its targets
		silent    string // the resource of which the server says nothing
		ends      bool
	}{
		"its Namespace has left":                         {targets: mirror, namespace: `{"west":{}}`, ends: true},
		"its Namespace is there":                         {targets: mirror, namespace: `{"east":{}}`},
		"a user wrote it":                                {targets: `{"east":{}}`, namespace: `{"west":{}}`},
		"nobody knows about its Namespace":               {targets: mirror, namespace: `{"west":{}}`, silent: "namespaces"},
		"nobody knows about the physical cluster either": {targets: mirror, namespace: `{"east":{}}`, silent: "physicalclusters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := object("apps/v1", "ReplicaSet", "web", "front", c.targets)
			o.Finalizers = []string{placementv1alpha1.CopiesFinalizer}
			metadata := newMetadata(t, o, object("v1", "Namespace", "", "web", c.namespace))
			client := fake.NewSimpleClientset(&fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
			silence := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") }
			if c.silent != "" {
				metadata.PrependReactor("get", c.silent, silence)
				client.PrependReactor("get", c.silent, silence)
			}
			s := New(Config{Client: client, MetadataClient: metadata, Metadata: controller.NewMetadata(metadata, nil, nil), Kinds: workload.Builtin()})
			_, err := s.reconcile(t.Context(), key{Resource: replicaSets, Object: controller.Request{Cluster: "shop", Namespace: "web", Name: "front"}})
			if (err != nil) != (c.silent != "") {
				t.Fatalf("error: %v", err)
			}
			left, err := metadata.Resource(replicaSets).Namespace("web").Get(t.Context(), "front", metav1.GetOptions{})
			if ends := apierrors.IsNotFound(err); ends != c.ends {
				t.Fatalf("it ends: %t, want %t; %v", ends, c.ends, err)
			}
			if !c.ends && len(left.Finalizers) == 0 {
				t.Error("its finalizer is off")
			}
			for _, a := range metadata.Actions() {
				if d, ok := a.(clienttesting.DeleteAction); ok {
					p := d.GetDeleteOptions().Preconditions
					if p == nil || p.UID == nil || p.ResourceVersion == nil {
						t.Error("another object of the name would go, too")
					}
				}
			}
		})
	}
}

// The garbage collector would delete them with their grace, and a syncer would carry that down.
func TestPodsThatAreMirroredEndBeforeWhatOwnsThem(t *testing.T) {
	t.Parallel()
	const mirror = `{"east":{"state":"Observed","uid":"p"}}`
	owner := object("apps/v1", "ReplicaSet", "web", "front", mirror)
	pod, another := object("v1", "Pod", "web", "front-0", mirror), object("v1", "Pod", "web", "other-0", `{"west":{"state":"Observed","uid":"q"}}`)
	held := object("v1", "Pod", "web", "held-0", mirror)
	held.DeletionTimestamp, held.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/held"}
	for _, p := range []*metav1.PartialObjectMetadata{pod, another, held} {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner.Name, UID: owner.UID}}
	}
	m := newMetadata(t, owner, pod, another, held, object("v1", "Namespace", "", "web", `{"west":{}}`))
	client := fake.NewSimpleClientset(&fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
	s := New(Config{Client: client, MetadataClient: m, Metadata: controller.NewMetadata(m, nil, nil), Kinds: workload.Builtin()})
	reconcile := func(gvr schema.GroupVersionResource, name string) controller.Result {
		t.Helper()
		result, err := s.reconcile(t.Context(), key{Resource: gvr, Object: controller.Request{Cluster: "shop", Namespace: "web", Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	left := func(gvr schema.GroupVersionResource) int {
		t.Helper()
		list, err := m.Resource(gvr).Namespace("web").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if result := reconcile(replicaSets, owner.Name); result.RequeueAfter == 0 || left(replicaSets) != 1 || s.queue.Len() != 1 {
		t.Errorf("with its pod there: %+v, %d are left, %d wait", result, left(replicaSets), s.queue.Len())
	}
	reconcile(pods, pod.Name)
	if reconcile(replicaSets, owner.Name); left(replicaSets) != 0 || left(pods) != 2 {
		t.Errorf("%d owners and %d pods are left", left(replicaSets), left(pods))
	}
}

// A namespace may have thousands of them, of as many owners, each of which is looked at until they have ended.
func TestPodsThatAreKnownAreNotListedForEachOwner(t *testing.T) {
	t.Parallel()
	const mirror = `{"east":{"state":"Observed","uid":"p"}}`
	owner, pod := object("apps/v1", "ReplicaSet", "web", "front", mirror), object("v1", "Pod", "web", "front-0", mirror)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner.Name, UID: owner.UID}}
	m := newMetadata(t, owner, pod, object("v1", "Namespace", "", "web", `{"west":{}}`))
	all := controller.NewMetadata(m, []schema.GroupVersionResource{pods}, nil)
	go all.Run(t.Context())
	if all.WaitForSync(t.Context()) != nil {
		t.Fatal("nothing is known")
	}
	client := fake.NewSimpleClientset(&fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
	s := New(Config{Client: client, MetadataClient: m, Metadata: all, Kinds: workload.Builtin()})
	m.ClearActions()
	for range 3 {
		result, err := s.reconcile(t.Context(), key{Resource: replicaSets, Object: controller.Request{Cluster: "shop", Namespace: "web", Name: "front"}})
		if err != nil || result.RequeueAfter == 0 {
			t.Errorf("with its pod there: %+v, %v", result, err)
		}
	}
	for _, a := range m.Actions() {
		if a.GetVerb() == "list" {
			t.Errorf("it lists %s", a.GetResource().Resource)
		}
	}
	if s.queue.Len() != 1 {
		t.Errorf("%d wait, want the pod", s.queue.Len())
	}
}

// The informers know of the mirror first, or of the Namespace.
func TestWhatIsMirroredIsFoundWhicheverIsSeenFirst(t *testing.T) {
	t.Parallel()
	const mirror = `{"east":{"state":"Observed","uid":"p"}}`
	resources := []schema.GroupVersionResource{namespaces}
	for _, kind := range workload.Builtin().Current().Observed() {
		resources = append(resources, kind.GroupVersionResource())
	}
	for name, apart := range map[string]func(*testing.T, *metadatafake.FakeMetadataClient){
		"the Namespace leaves": func(t *testing.T, m *metadatafake.FakeMetadataClient) {
			if err := m.Tracker().Update(namespaces, object("v1", "Namespace", "", "web", `{"west":{}}`), ""); err != nil {
				t.Fatal(err)
			}
		},
		"a mirror comes later": func(t *testing.T, m *metadatafake.FakeMetadataClient) {
			if err := errors.Join(m.Tracker().Update(namespaces, object("v1", "Namespace", "", "web", `{"west":{}}`), ""),
				m.Tracker().Create(replicaSets, object("apps/v1", "ReplicaSet", "web", "late", mirror), "web")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMetadata(t, object("apps/v1", "ReplicaSet", "web", "front", mirror), object("v1", "Namespace", "", "web", `{"east":{},"west":{}}`))
			client := fake.NewSimpleClientset(&fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
			all := controller.NewMetadata(m, resources, nil)
			go all.Run(t.Context())
			physicalClusters := controller.NewInformer("physicalclusters", &fleetv1alpha1.PhysicalCluster{},
				controller.Lists(client.FleetV1alpha1().PhysicalClusters()), controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{})
			go physicalClusters.Run(t.Context())
			s := New(Config{Client: client, MetadataClient: m, Kinds: workload.Builtin(), Metadata: all, PhysicalClusters: physicalClusters})
			go s.Run(t.Context())
			if all.WaitForSync(t.Context()) != nil || physicalClusters.WaitForSync(t.Context()) != nil {
				t.Fatal("nothing is known")
			}
			apart(t, m)
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				list, err := m.Resource(replicaSets).Namespace("web").List(t.Context(), metav1.ListOptions{})
				if err == nil && len(list.Items) == 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("left: %v, %v", list, err)
				}
			}
		})
	}
}
