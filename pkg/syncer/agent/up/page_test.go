package up

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// What a load balancer before the control plane answers for a moment, while it begins or has no route, is no reason to
// leave it at that: nothing would have it looked at again. More of it is in the worlds that lose a route.
func TestADeletionAboveThatMetAPageIsTriedAgain(t *testing.T) {
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), viewtest.Mirror("app-1", "p", "below-p")}, nil)
	met := viewtest.PageOnce(f.Above, "delete", "pods")
	f.Watch(t)
	if result, err := f.Reconcile(f.Ctx, podKey("below-p")); !met() || err == nil && result.RequeueAfter == 0 {
		t.Fatalf("it is left at that: %t, %v, %v", met(), result, err)
	}
	if _, err := f.Reconcile(f.Ctx, podKey("below-p")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Above.Resource(pods).Namespace("web").Get(f.Ctx, "app-1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there: %v", err)
	}
}
