package syncer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Traffic that was withdrawn does not come back while the copy is removed.
func TestWhatDrainsOrIsRemovedReceivesNoTraffic(t *testing.T) {
	for targets, want := range map[string]bool{
		`{"east":{}}`: false, `{"east":{"state":"Starting"}}`: false, `{"west":{"state":"Draining"}}`: false,
		`{"east":{"state":"Draining"}}`: true, `{"east":{"state":"Removing"}}`: true,
	} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets})
		if got := OwnerOf("east", u).Draining; got != want {
			t.Errorf("%s: %v", targets, got)
		}
	}
}
