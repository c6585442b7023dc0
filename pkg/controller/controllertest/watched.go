// Package controllertest has what tests of controllers share.
package controllertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
)

// AwaitWatches waits until a fake server has been asked to watch the resources. A test
// that changes an object when its informer has listed it may be too early: of what changed between
// the list and the watch fakes send nothing, or the object that they keep themselves, which the
// informer then changes.
func AwaitWatches(t *testing.T, fake *clienttesting.Fake, resources ...schema.GroupVersionResource) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		watched := map[schema.GroupVersionResource]bool{}
		for _, a := range fake.Actions() {
			if a.GetVerb() == "watch" {
				watched[a.GetResource()] = true
			}
		}
		return !slices.ContainsFunc(resources, func(r schema.GroupVersionResource) bool { return !watched[r] }), nil
	})
	if err != nil {
		t.Fatalf("not all of %v are watched: %v", resources, err)
	}
}
