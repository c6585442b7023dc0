package syncer

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// WantedManager owns below what users changed on what was mirrored, and conditions that
// somebody set above.
const WantedManager = "atoll-wanted"

// wanted is the merge patch that gives the object below the labels and
// annotations that a user changed above; nil if it has them, or nobody did.
func (s Observation) wanted() *unstructured.Unstructured {
	noted, ok := s.Logical.GetAnnotations()[placementv1alpha1.WantedAnnotation]
	if !ok {
		return nil
	}
	var parts map[string]map[string]*string
	if json.Unmarshal([]byte(noted), &parts) != nil {
		return nil
	}
	metadata := map[string]any{}
	for part, have := range map[string]map[string]string{"labels": s.Physical.GetLabels(), "annotations": s.Physical.GetAnnotations()} {
		changes := map[string]any{}
		for key, value := range parts[part] {
			current, has := have[key]
			switch {
			case placementv1alpha1.IsSystemKey(key):
			case value == nil && has:
				changes[key] = nil
			case value != nil && (!has || current != *value):
				changes[key] = *value
			}
		}
		if len(changes) > 0 {
			metadata[part] = changes
		}
	}
	if len(metadata) == 0 {
		return nil
	}
	metadata["uid"] = string(s.Physical.GetUID()) // another object of the name is left alone
	return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
}

// Decline puts back what a user changed: the physical cluster does not take it.
func Decline(s Observation) []Action {
	owners, _, _ := s.owners()
	return s.difference(s.desired(owners))
}
