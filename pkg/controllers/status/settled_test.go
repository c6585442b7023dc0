package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestWhatIsAsTheLastLookLeftItIsNotReadAgain(t *testing.T) {
	app := object(deployments, "Deployment", "app")
	copied := copyOf(app, deployments, `{"replicas":3,"observedGeneration":9}`)
	s, client := start(t, app, copied)
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	seen := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "app", UID: app.GetUID(), ResourceVersion: "7", Annotations: app.GetAnnotations()},
	}
	s.Metadata = controller.NewMetadata(metadatafake.NewSimpleMetadataClient(scheme, seen), []schema.GroupVersionResource{deployments}, nil)
	go s.Metadata.Run(t.Context())
	if err := s.Metadata.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := keyFor(deployments, "app")
	look := func(why string, want ...string) {
		t.Helper()
		if _, err := s.reconcile(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, requests(client)); diff != "" {
			t.Errorf("%s: requests (-want +got)\n%s", why, diff)
		}
	}
	look("at first", "get deployments", "update deployments/status") // the fake server leaves the version as it is
	look("when the own write comes back")

	last, _ := s.outcomes.Get(k)
	s.outcomes.Add(k, outcome{version: "6", basis: last.(outcome).basis})
	look("when somebody else wrote", "get deployments")
	s.outcomes.Add(k, outcome{version: "7", basis: "another@1 newest "})
	look("when a Copy is another", "get deployments")
	s.outcomes.Remove(k)
	look("when there is more to do at some time", "get deployments")
}

func TestNobodyReadsTheStatusOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	obj := func(deleting bool, finalizers ...string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "u", Finalizers: finalizers}}
		if deleting {
			o.DeletionTimestamp = &now
		}
		return o
	}
	in := func(uid types.UID, states ...placementv1alpha1.CopyState) (copies []*placementv1alpha1.Copy) {
		for _, state := range states {
			copies = append(copies, &placementv1alpha1.Copy{
				Spec: placementv1alpha1.CopySpec{Object: placementv1alpha1.ObjectReference{UID: uid}}, Status: placementv1alpha1.CopyStatus{State: state},
			})
		}
		return copies
	}
	const ours, removed, synced, removing = placementv1alpha1.CopiesFinalizer, placementv1alpha1.CopyRemoved, placementv1alpha1.CopySynced, placementv1alpha1.CopyRemoving
	for name, test := range map[string]struct {
		obj    *metav1.PartialObjectMetadata
		copies []*placementv1alpha1.Copy
		want   bool
	}{
		"it is not known": {nil, in("u", synced), true},
		"it is there":     {obj(false, ours), in("u", removed), false},
		"it is being deleted, and its copy is there": {obj(true, ours), in("u", synced), false},
		"its copy is being removed":                  {obj(true, ours), in("u", removing), false},
		"one of two is there":                        {obj(true, ours), in("u", removed, synced), false},
		"all are removed":                            {obj(true, ours), in("u", removed, removed), true},
		"it has none":                                {obj(true, ours), nil, true},
		"our finalizer is off already":               {obj(true), in("u", removed), true},
		"somebody waits for what it says":            {obj(true, "example.org/wait", ours), in("u", removed), false},
		"it waits for its dependents":                {obj(true, ours, metav1.FinalizerDeleteDependents), in("u", removed), false},
		"a copy of another object of the name":       {obj(true, ours), in("other", synced), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ended(test.obj, test.copies); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
