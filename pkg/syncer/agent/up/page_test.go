package up

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// What a load balancer before the control plane answers for a moment, while it begins or has no route, is no reason to
// leave it at that: nothing would have it looked at again. More of it is in the worlds that lose a route.
func TestADeletionAboveThatMetAPageIsTriedAgain(t *testing.T) {
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, true)
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), viewtest.Mirror("app-1", "p", "below-p")}, nil)
	paged := false
	f.Above.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if paged {
			return false, nil, nil
		}
		paged = true
		return true, nil, page
	})
	f.Watch(t)
	if result, err := f.Reconcile(f.Ctx, podKey("below-p")); !paged || err == nil && result.RequeueAfter == 0 {
		t.Fatalf("it is left at that: %t, %v, %v", paged, result, err)
	}
	if _, err := f.Reconcile(f.Ctx, podKey("below-p")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Above.Resource(pods).Namespace("web").Get(f.Ctx, "app-1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there: %v", err)
	}
}
