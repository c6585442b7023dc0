package copies

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestASyncerIsNotBelievedThatSomethingWasAdopted(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "ReplicaSet"})
	deployments, _ := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	claimed := func() *placementv1alpha1.Copy {
		c := recording(aCopy("east", "u", placementv1alpha1.CopyPending), "p")
		c.Status.Controller = &placementv1alpha1.ObjectReference{Group: "apps", Kind: "Deployment", Name: "web", UID: "d"}
		return c
	}
	controller := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "web", "uid": "d", "annotations": map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{}}`}},
			"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
		}}
	}
	labelled := func() metav1.Object {
		obj := anObject(`{"east":{}}`, false)
		obj.SetLabels(map[string]string{"app": "web"})
		obj.SetOwnerReferences([]metav1.OwnerReference{{UID: "x"}})
		return obj
	}
	want := Adoption{
		Targets: placementv1alpha1.Targets{"east": {State: "Observed", UID: "p", Adopted: true}},
		Owners: []metav1.OwnerReference{{UID: "x"}, {
			APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
	got, ok := Adopt(kind, labelled(), claimed(), deployments, controller())
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%v (-want +got)\n%s", ok, diff)
	}
	for name, edit := range map[string]func(obj metav1.Object, c *placementv1alpha1.Copy, controller *unstructured.Unstructured){
		"another controller of the name": func(_ metav1.Object, _ *placementv1alpha1.Copy, d *unstructured.Unstructured) { d.SetUID("e") },
		"labels that it does not select": func(o metav1.Object, _ *placementv1alpha1.Copy, _ *unstructured.Unstructured) { o.SetLabels(nil) },
		"a syncer of another target": func(_ metav1.Object, c *placementv1alpha1.Copy, _ *unstructured.Unstructured) {
			c.Spec.PhysicalCluster = "west"
		},
		"a kind that adopts nothing": func(_ metav1.Object, _ *placementv1alpha1.Copy, d *unstructured.Unstructured) {
			d.SetKind("ReplicaSet")
		},
	} {
		obj, c, d := labelled(), claimed(), controller()
		edit(obj, c, d)
		if _, ok := Adopt(kind, obj, c, deployments, d); ok {
			t.Errorf("%s: adopted", name)
		}
	}
}

// The syncer may withdraw what it claimed as long as nobody relies on it, and the two
// objects that are written are not written at once.
func TestTheClaimOfAnAdoptionIsAcceptedBeforeTheObjectIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		// reason is what the Copy says that the informer has, live what the server has.
		reason, live string
		controlled   bool
		gone         bool
		// adopted says what becomes of the object, says what the Copy says then.
		adopted bool
		says    string
	}{
		"made":                                 {reason: syncer.ReasonAdopted, live: syncer.ReasonAdopted, adopted: true, says: syncer.ReasonAdoptionAccepted},
		"made, and withdrawn since":            {reason: syncer.ReasonAdopted, live: syncer.ReasonNew, says: syncer.ReasonNew},
		"made, and the controller is gone":     {reason: syncer.ReasonAdopted, live: syncer.ReasonAdopted, gone: true, says: syncer.ReasonAdopted},
		"accepted":                             {reason: syncer.ReasonAdoptionAccepted, live: syncer.ReasonAdoptionAccepted, adopted: true, says: syncer.ReasonAdoptionAccepted},
		"accepted, and the controller is gone": {reason: syncer.ReasonAdoptionAccepted, live: syncer.ReasonAdoptionAccepted, gone: true, adopted: true, says: syncer.ReasonAdoptionAccepted},
		"accepted, and somebody else controls it": {
			reason: syncer.ReasonAdoptionAccepted, live: syncer.ReasonAdoptionAccepted, controlled: true, says: syncer.ReasonAdopted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if adopted, says := adoptOnce(t, c.reason, c.live, c.controlled, c.gone); adopted != c.adopted || says != c.says {
				t.Errorf("adopted: %v, and the Copy says %s; want %v and %s", adopted, says, c.adopted, c.says)
			}
		})
	}
}

// adoptOnce has a Pod reconciled whose Copy claims that a ReplicaSet has it.
func adoptOnce(t *testing.T, informed, live string, controlled, gone bool) (adopted bool, says string) {
	t.Helper()
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	claim := func(reason, version string) *placementv1alpha1.Copy {
		c := recording(aCopy("east", "u", placementv1alpha1.CopyPending), "p")
		c.Namespace, c.Name, c.UID, c.ResourceVersion = "web", syncer.CopyName(pods.GroupResource(), "front", "east"), "c", version
		c.Spec.Object.Resource, c.Spec.Object.Name = "pods", "front"
		c.Annotations = map[string]string{logicalcluster.AnnotationKey: "shop"}
		c.Status.Reason, c.Status.Controller = reason, &placementv1alpha1.ObjectReference{Group: "apps", Kind: "ReplicaSet", Name: "set", UID: "r"}
		return c
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	anObject(`{"east":{}}`, false).(*metav1.ObjectMeta).DeepCopyInto(&object.ObjectMeta)
	object.Namespace, object.Name, object.Labels = "web", "front", map[string]string{"app": "web"}
	if controlled {
		object.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: ptr.To(true)}}
	}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet",
		"metadata": map[string]any{"namespace": "web", "name": "set", "uid": "r", "annotations": map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{}}`}},
		"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
	}}
	controllers := []runtime.Object{set}
	if gone {
		controllers = nil
	}
	stored := claim(live, "1")
	if live != informed {
		stored.ResourceVersion = "2"
	}
	client := fake.NewSimpleClientset(stored)
	client.PrependReactor("update", "copies", func(a clienttesting.Action) (bool, runtime.Object, error) {
		sent := a.(clienttesting.UpdateAction).GetObject().(*placementv1alpha1.Copy)
		if sent.ResourceVersion != stored.ResourceVersion {
			return true, nil, apierrors.NewConflict(placementv1alpha1.Resource("copies"), sent.Name, errors.New("it was written since"))
		}
		return false, nil, nil
	})
	metadata := metadatafake.NewSimpleMetadataClient(scheme, object)
	s := New(Config{
		Kinds: workload.Builtin(), Client: client, MetadataClient: metadata, Dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), controllers...),
		Copies: known(t, &placementv1alpha1.Copy{}, &placementv1alpha1.CopyList{Items: []placementv1alpha1.Copy{*claim(informed, "1")}}, copyindex.Indexers()),
		PhysicalClusters: known(t, &fleetv1alpha1.PhysicalCluster{},
			&fleetv1alpha1.PhysicalClusterList{Items: []fleetv1alpha1.PhysicalCluster{*physicalCluster(false)}}, nil),
	})
	_, err := s.reconcile(t.Context(), key{Resource: pods, Object: controller.Request{Cluster: "shop", Namespace: "web", Name: "front"}})
	if err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	now, err := metadata.Resource(pods).Namespace("web").Get(t.Context(), "front", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.PlacementV1alpha1().Copies("web").Get(t.Context(), stored.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stamp.TargetsOf(now.Annotations)["east"].State == placementv1alpha1.TargetObserved, c.Status.Reason
}

func TestAClaimIsAboutTheObjectThatIsThere(t *testing.T) {
	obj := anObject(`{"east":{}}`, false)
	claims := func(c *placementv1alpha1.Copy) *placementv1alpha1.Copy {
		c.Status.Controller = &placementv1alpha1.ObjectReference{UID: "d"}
		return c
	}
	for name, c := range map[string]*placementv1alpha1.Copy{
		"of its predecessor":  claims(recording(aCopy("east", "before", placementv1alpha1.CopyPending), "p")),
		"of what is not made": claims(aCopy("east", "u", placementv1alpha1.CopyPending)),
		"of what is removed":  claims(recording(aCopy("east", "u", placementv1alpha1.CopyRemoved), "p")),
		"none":                recording(aCopy("east", "u", placementv1alpha1.CopySynced), "p"),
	} {
		if Claim(obj, []*placementv1alpha1.Copy{c}) != nil {
			t.Errorf("a claim %s is believed", name)
		}
	}
}
