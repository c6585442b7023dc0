package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"

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
