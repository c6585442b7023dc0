package deletion

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// An eviction deletes its pod, and its answer waits as that of a deletion does: not
// if the pod is given time to end.
func TestTheAnswerToAnEvictionComesWhenThePodIsGone(t *testing.T) {
	t.Parallel()
	const lives = 100 * time.Millisecond
	for name, c := range map[string]struct {
		grace int64
		group string
		waits bool
	}{
		"without grace":            {0, "", true},
		"with grace":               {30, "", false},
		"of something of a user's": {0, "example.org", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			client := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Finalizers: []string{placementv1alpha1.CopiesFinalizer},
					DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, DeletionGracePeriodSeconds: ptr.To(c.grace)},
			})
			var gone *time.Timer
			handler := (&Waiter{client: client}).With(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				gone = time.AfterFunc(lives, func() {
					_ = client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "shop", "web")
				})
				w.WriteHeader(http.StatusCreated)
			}))
			info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: c.group, APIVersion: "v1", Resource: "pods", Subresource: "eviction", Namespace: "shop", Name: "web"}
			ctx := request.WithUser(request.WithRequestInfo(scope.WithCluster(t.Context(), "demo"), info), &user.DefaultInfo{Name: "alice"})
			began := time.Now()
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/shop/pods/web/eviction", nil))
			took := time.Since(began)
			gone.Stop()
			if (took >= lives) != c.waits {
				t.Errorf("answered after %s", took)
			}
		})
	}
}
