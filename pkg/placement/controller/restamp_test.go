package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// What cannot be stamped keeps neither the rest from it, nor a worker from the units of others.
func TestThousandsOfObjectsAreStampedLookAfterLook(t *testing.T) {
	t.Parallel()
	const objects = 2*maxStamped + 10
	stored := []runtime.Object{complete(), placementOf("east", "west")}
	var want []string
	for i := range objects {
		name := fmt.Sprintf("web-%04d", i)
		stored = append(stored, deployment(name, `{"east":{}}`, 1))
		want = append(want, name)
	}
	f := newFixture(t, stored...)
	f.metadata.PrependReactor("patch", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.(clienttesting.PatchAction).GetName() == "web-0003" {
			return true, nil, errors.New("refused")
		}
		return true, &metav1.PartialObjectMetadata{}, nil
	})

	seen := 0
	names := func() (names []string) {
		for _, line := range f.writes()[seen:] {
			if name, ok := strings.CutPrefix(line, "patch deployments "); ok {
				names = append(names, strings.TrimSuffix(name, " {}"))
				seen++
			}
		}
		return names
	}
	list := func() (list []stamped) {
		u, _, err := f.read(t.Context(), web)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range u.stale {
			if s.resource == deployments {
				list = append(list, s)
			}
		}
		return list
	}
	var all []string
	for look, n := range []int{maxStamped, maxStamped, 10} {
		result, err := f.restampSome(t.Context(), round{web, "decided"}, list())
		if err != nil {
			t.Errorf("look %d: %v", look, err)
		}
		if again := result.RequeueAfter == batchDelay; again != (look < 2) {
			t.Errorf("look %d: the next one is after %s", look, result.RequeueAfter)
		}
		got := names()
		if len(got) != n {
			t.Errorf("look %d has %d objects stamped, want %d", look, len(got), n)
		}
		all = append(all, got...)
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("in all looks (-want +got):\n%s", diff)
	}
	if _, err := f.restampSome(t.Context(), round{web, "decided"}, list()[:20]); err == nil {
		t.Error("what fails in the last look of a round is not said")
	}
	if got := names(); len(got) != 20 || got[0] != want[0] {
		t.Errorf("the next round begins with %v", got)
	}
}
