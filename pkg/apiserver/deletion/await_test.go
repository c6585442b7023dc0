package deletion

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

var services = schema.GroupVersionResource{Version: "v1", Resource: "services"}

func service(finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: finalizers},
	}
}

// remove is a request that deletes Services, and the time until it is answered;
// after what the object lives on.
func remove(t *testing.T, by user.Info, verb string, obj *metav1.PartialObjectMetadata, lives time.Duration) time.Duration {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, obj)
	w := &Waiter{client: client}
	var gone *time.Timer
	handler := w.With(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gone = time.AfterFunc(lives, func() { _ = client.Tracker().Delete(services, "shop", "web") })
		w.WriteHeader(http.StatusOK)
	}))
	info := &request.RequestInfo{IsResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: "services", Namespace: "shop", Name: "web"}
	ctx := request.WithUser(request.WithRequestInfo(scope.WithCluster(t.Context(), "demo"), info), by)
	began := time.Now()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodDelete, "/api/v1/namespaces/shop/services", nil))
	took := time.Since(began)
	gone.Stop()
	return took
}

func TestTheAnswerToADeletionComesWhenTheObjectIsGone(t *testing.T) {
	t.Parallel()
	const lives = 100 * time.Millisecond
	alice := &user.DefaultInfo{Name: "alice"}
	system := &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	for name, c := range map[string]struct {
		by    user.Info
		verb  string
		obj   *metav1.PartialObjectMetadata
		waits bool
	}{
		"one object":                     {alice, "delete", service(placementv1alpha1.CopiesFinalizer), true},
		"a collection":                   {alice, "deletecollection", service(placementv1alpha1.CopiesFinalizer), true},
		"held by others, too":            {alice, "delete", service(placementv1alpha1.CopiesFinalizer, "example.org/x"), false},
		"deleted in the foreground":      {alice, "delete", service(metav1.FinalizerDeleteDependents, placementv1alpha1.CopiesFinalizer), false},
		"deleted by the server itself":   {system, "delete", service(placementv1alpha1.CopiesFinalizer), false},
		"something else than a deletion": {alice, "update", service(placementv1alpha1.CopiesFinalizer), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if took := remove(t, c.by, c.verb, c.obj, lives); (took >= lives) != c.waits {
				t.Errorf("answered after %s", took)
			}
		})
	}
}

func TestAnAnswerDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	took := remove(t, &user.DefaultInfo{Name: "alice"}, "delete", service(placementv1alpha1.CopiesFinalizer), time.Hour)
	if took < patience || took > 5*patience {
		t.Errorf("answered after %s", took)
	}
}

func TestALiveObjectOfTheSameNameIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	obj := service(placementv1alpha1.CopiesFinalizer)
	obj.DeletionTimestamp = nil
	if took := remove(t, &user.DefaultInfo{Name: "alice"}, "delete", obj, time.Hour); took > patience/2 {
		t.Errorf("answered after %s", took)
	}
}
