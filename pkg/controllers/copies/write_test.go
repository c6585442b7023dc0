package copies

import (
	"slices"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// An object left a target and came back, as another server saw first, and is deleted now.
func TestAnAcknowledgementThatWasUsedUpReleasesNothing(t *testing.T) {
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	newCopy := func(uid types.UID, state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		c := aCopy("east", "u", state)
		c.Namespace, c.Name, c.UID = "web", syncer.CopyName(services.GroupResource(), "front", "east"), uid
		c.Spec.Object.Resource, c.Spec.Object.Name = "services", "front"
		c.Annotations = map[string]string{logicalcluster.AnnotationKey: "shop"}
		return c
	}
	informed := newCopy("first", placementv1alpha1.CopyRemoved)
	for name, c := range map[string]struct {
		live     []runtime.Object
		released bool
	}{
		"it stands":       {[]runtime.Object{informed}, true},
		"it was used up":  {nil, false},
		"there is a copy": {[]runtime.Object{newCopy("second", placementv1alpha1.CopySynced)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}}
			anObject(`{"east":{}}`, true).(*metav1.ObjectMeta).DeepCopyInto(&object.ObjectMeta)
			object.Namespace, object.Name = "web", "front"
			metadata := metadatafake.NewSimpleMetadataClient(scheme, object)
			s := New(Config{
				Kinds: workload.Builtin(), Client: fake.NewSimpleClientset(c.live...), MetadataClient: metadata,
				Copies: known(t, &placementv1alpha1.Copy{}, &placementv1alpha1.CopyList{Items: []placementv1alpha1.Copy{*informed}}, copyindex.Indexers()),
				PhysicalClusters: known(t, &fleetv1alpha1.PhysicalCluster{},
					&fleetv1alpha1.PhysicalClusterList{Items: []fleetv1alpha1.PhysicalCluster{*physicalCluster(false)}}, nil),
			})
			result, err := s.reconcile(t.Context(), key{Resource: services, Object: controller.Request{Cluster: "shop", Namespace: "web", Name: "front"}})
			if err != nil {
				t.Fatal(err)
			}
			live, err := metadata.Resource(services).Namespace("web").Get(t.Context(), "front", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if released := !slices.Contains(live.Finalizers, placementv1alpha1.CopiesFinalizer); released != c.released {
				t.Errorf("released: %v, want %v", released, c.released)
			}
			if again := result.RequeueAfter > 0; again == c.released {
				t.Errorf("it is looked at again: %v", again)
			}
		})
	}
}

func TestNothingIsReadBeforeThereIsSomethingToTakeNoteOf(t *testing.T) {
	t.Parallel()
	claiming := aCopy("east", "u", placementv1alpha1.CopySynced)
	claiming.Status.Controller, claiming.Status.PhysicalUID = &placementv1alpha1.ObjectReference{}, "below"
	for name, test := range map[string]struct {
		targets  string
		deleting bool
		copies   []*placementv1alpha1.Copy
		waits    bool
	}{
		"its copy is there":                {`{"east":{}}`, true, []*placementv1alpha1.Copy{aCopy("east", "u", placementv1alpha1.CopySynced)}, true},
		"its copy is being removed":        {`{"east":{}}`, true, []*placementv1alpha1.Copy{aCopy("east", "u", placementv1alpha1.CopyRemoving)}, true},
		"its copy is still to be recorded": {`{"east":{}}`, true, nil, true},
		"its copy is removed":              {`{"east":{}}`, true, []*placementv1alpha1.Copy{aCopy("east", "u", placementv1alpha1.CopyRemoved)}, false},
		"none was to be made":              {`{}`, true, nil, false},
		"it leaves":                        {`{"east":{"state":"Removing"}}`, false, []*placementv1alpha1.Copy{aCopy("east", "u", placementv1alpha1.CopySynced)}, true},
		"it has left":                      {`{"east":{"state":"Removing"}}`, false, []*placementv1alpha1.Copy{aCopy("east", "u", placementv1alpha1.CopyRemoved)}, false},
		"one of another object is removed": {`{"east":{}}`, true, []*placementv1alpha1.Copy{aCopy("east", "u", placementv1alpha1.CopySynced), aCopy("west", "old", placementv1alpha1.CopyRemoved)}, false},
		"a target is not registered":       {`{"north":{}}`, true, []*placementv1alpha1.Copy{aCopy("north", "u", placementv1alpha1.CopySynced)}, false},
		"a controller below has adopted":   {`{"east":{}}`, true, []*placementv1alpha1.Copy{claiming}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Config{PhysicalClusters: known(t, &fleetv1alpha1.PhysicalCluster{},
				&fleetv1alpha1.PhysicalClusterList{Items: []fleetv1alpha1.PhysicalCluster{*physicalCluster(false)}}, nil)})
			if got := s.waits(anObject(test.targets, test.deleting), test.copies); got != test.waits {
				t.Errorf("%v, want %v", got, test.waits)
			}
		})
	}
}
