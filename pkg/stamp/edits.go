package stamp

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Wanted notes on an object that was mirrored which labels and annotations a user
// changes: it is what runs below that has to have them. What was noted before and
// is not changed again stays noted.
func Wanted(obj, old metav1.Object) {
	wanted := map[string]map[string]*string{}
	if noted, ok := old.GetAnnotations()[placementv1alpha1.WantedAnnotation]; ok {
		_ = json.Unmarshal([]byte(noted), &wanted) // ours: users cannot write it
	}
	note(wanted, "labels", obj.GetLabels(), old.GetLabels())
	note(wanted, "annotations", obj.GetAnnotations(), old.GetAnnotations())
	if len(wanted) == 0 {
		return
	}
	if data, err := json.Marshal(wanted); err == nil {
		annotate(obj, placementv1alpha1.WantedAnnotation, string(data))
	}
}

func note(wanted map[string]map[string]*string, part string, now, before map[string]string) {
	set := func(key string, value *string) {
		if placementv1alpha1.IsSystemKey(key) || key == corev1.LastAppliedConfigAnnotation {
			return
		}
		if wanted[part] == nil {
			wanted[part] = map[string]*string{}
		}
		wanted[part][key] = value
	}
	for key, value := range now {
		if was, ok := before[key]; !ok || was != value {
			set(key, &value)
		}
	}
	for key := range before {
		if _, ok := now[key]; !ok {
			set(key, nil)
		}
	}
}
