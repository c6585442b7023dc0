package viewtest

import (
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// PageOnce has the next request of a verb for a resource be answered as by a load balancer that has no route: with a
// page that is not found, of nothing in particular. It returns whether that has happened.
func PageOnce(c *dynamicfake.FakeDynamicClient, verb, resource string) (met func() bool) {
	var mu sync.Mutex
	paged := false
	c.PrependReactor(verb, resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if paged {
			return false, nil, nil
		}
		paged = true
		// Clients write into its details what they asked for.
		return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, verb, schema.GroupResource{Group: a.GetResource().Group, Resource: resource}, "", "404 page not found", 0, true)
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return paged
	}
}
