package deletion

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// An eviction deletes its pod, and its answer waits as that of a deletion does: not
// if the pod is given time to end.
func TestTheAnswerToAnEvictionComesWhenThePodIsGone(t *testing.T) {
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
			synctest.Test(t, func(t *testing.T) {
				pod := service(placementv1alpha1.CopiesFinalizer)
				pod.Kind, pod.DeletionGracePeriodSeconds = "Pod", ptr.To(c.grace)
				w := newWorld(t, pod)
				handler := w.waiter.With(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
					time.AfterFunc(delay, func() { _ = w.client.Tracker().Delete(pods, "shop", "web") })
					rw.WriteHeader(http.StatusCreated)
				}))
				info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: c.group, APIVersion: "v1", Resource: "pods", Subresource: "eviction", Namespace: "shop", Name: "web"}
				ctx := request.WithUser(request.WithRequestInfo(scope.WithCluster(t.Context(), "demo"), info), alice)
				began := time.Now()
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/shop/pods/web/eviction", nil))
				if took := time.Since(began); took != map[bool]time.Duration{true: delay}[c.waits] {
					t.Errorf("answered after %s", took)
				}
				time.Sleep(delay) // the pod of one that does not wait goes, too
			})
		})
	}
}
