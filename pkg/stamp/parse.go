package stamp

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// ParseTargets reads the value of the targets annotation; the empty string is no
// targets.
func ParseTargets(value string) (placementv1alpha1.Targets, error) {
	if value == "" {
		return nil, nil
	}
	if t, ok := parseSettled(value); ok {
		return t, nil
	}
	var t placementv1alpha1.Targets
	if err := json.Unmarshal([]byte(value), &t); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", placementv1alpha1.TargetsAnnotation, err)
	}
	return t, nil
}

// parseSettled reads targets of which nothing is said but where they are, as nearly all objects have most of the time: whoever
// looks at a unit reads those of all of its objects. ok is false for anything else.
func parseSettled(value string) (_ placementv1alpha1.Targets, ok bool) {
	rest, ok := strings.CutPrefix(value, "{")
	t := make(placementv1alpha1.Targets, 1)
	for ok {
		var name string
		if rest, ok = strings.CutPrefix(rest, `"`); !ok {
			break
		}
		if name, rest, ok = strings.Cut(rest, `":{}`); !ok || strings.ContainsFunc(name, func(r rune) bool { return r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) {
			return nil, false
		}
		t[name] = placementv1alpha1.Target{}
		if rest == "}" {
			return t, true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return nil, false
}

// TargetsOf reads the targets from annotations; what cannot be parsed is no
// targets: nothing is ever synced or removed on the ground of a broken value.
func TargetsOf(annotations map[string]string) placementv1alpha1.Targets {
	t, err := ParseTargets(annotations[placementv1alpha1.TargetsAnnotation])
	if err != nil {
		return nil
	}
	return t
}

// HasTargets reports whether an object is stamped.
func HasTargets(obj metav1.Object) bool {
	return obj.GetAnnotations()[placementv1alpha1.TargetsAnnotation] != ""
}

// SameTargets reports whether two versions of an object carry the same targets.
func SameTargets(a, b metav1.Object) bool {
	return a.GetAnnotations()[placementv1alpha1.TargetsAnnotation] == b.GetAnnotations()[placementv1alpha1.TargetsAnnotation]
}

// RunsOn says that what a user made may have pods on a target:
//
//	on the target it                            runs
//	is not, or waits, or has ended elsewhere    no
//	mirrors what controllers there made         no: the syncer wrote it
//	is such a mirror, of what a user made       yes
//	has a copy, also one that is being removed  yes
func RunsOn(obj metav1.Object, target string) bool {
	entry, ok := TargetsOf(obj.GetAnnotations())[target]
	return ok && (entry.Keeps() || entry.State == placementv1alpha1.TargetStateRemoving ||
		entry.State == placementv1alpha1.TargetObserved && entry.Adopted)
}

// AdmitsPods notes on a Namespace whether its logical cluster has something to say about pods
// that are made in it.
func AdmitsPods(namespace metav1.Object, does bool) {
	value := ""
	if does {
		value = "true"
	}
	annotate(namespace, placementv1alpha1.AdmitsPodsAnnotation, value)
}
