package pods

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func made(uid types.UID, namespace string, physical types.UID) *placement.Copy {
	c := &placement.Copy{ObjectMeta: metav1.ObjectMeta{Name: "a-1"}}
	c.Spec.Object.UID = uid
	c.Status = placement.CopyStatus{State: placement.CopySynced, PhysicalNamespace: namespace, PhysicalUID: physical}
	return c
}

func TestAPodIsWhereTheServerRecordedIt(t *testing.T) {
	t.Parallel()
	waiting := made("u", "p", "")
	waiting.Status.State, waiting.Status.Reason = placement.CopyPending, "NamespaceTerminating"
	for name, c := range map[string]struct {
		targets   placement.Targets
		namespace string
		copies    map[string]*placement.Copy
		want      Place
		why       string
	}{
		"observed":                      {placement.Targets{"east": {State: placement.TargetObserved, UID: "b"}}, "p", nil, Place{"east", "p", "b"}, ""},
		"observed, without namespace":   {placement.Targets{"east": {State: placement.TargetObserved, UID: "b"}}, "", nil, Place{}, "not recorded yet"},
		"observed, without UID":         {placement.Targets{"east": {State: placement.TargetObserved}}, "p", nil, Place{}, "not recorded yet"},
		"copied":                        {placement.Targets{"east": {}}, "elsewhere", map[string]*placement.Copy{"east": made("u", "p", "b")}, Place{"east", "p", "b"}, ""},
		"copied, of a predecessor":      {placement.Targets{"east": {}}, "p", map[string]*placement.Copy{"east": made("old", "p", "b")}, Place{}, "not been made"},
		"copied, not made":              {placement.Targets{"east": {}}, "p", map[string]*placement.Copy{"east": waiting}, Place{}, "NamespaceTerminating"},
		"copied, not recorded":          {placement.Targets{"east": {}}, "p", nil, Place{}, "not been made"},
		"on two, one receives traffic":  {placement.Targets{"a": {State: placement.TargetStateDraining}, "b": {}}, "p", map[string]*placement.Copy{"a": made("u", "p", "1"), "b": made("u", "p", "2")}, Place{"b", "p", "2"}, ""},
		"on two, one is made":           {placement.Targets{"a": {State: placement.TargetStateDraining}, "b": {}}, "p", map[string]*placement.Copy{"a": made("u", "p", "1"), "b": waiting}, Place{"a", "p", "1"}, ""},
		"on one that is to go":          {placement.Targets{"a": {State: placement.TargetStateRemoving}}, "p", map[string]*placement.Copy{"a": made("u", "p", "1")}, Place{}, "no place yet"},
		"placed nowhere":                {nil, "p", nil, Place{}, "no place yet"},
		"targets that nobody can parse": {nil, "p", nil, Place{}, "no place yet"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &metav1.ObjectMeta{Name: "a", UID: "u", Annotations: map[string]string{placement.TargetsAnnotation: c.targets.String()}}
			namespace := &metav1.ObjectMeta{Annotations: map[string]string{placement.PhysicalNamespaceAnnotation: c.namespace}}
			got, err := Locate(pod, namespace, c.copies)
			if c.why != "" {
				if !apierrors.IsConflict(err) || !containsText(err, c.why) {
					t.Errorf("got %+v, %v, want a conflict with %q", got, err, c.why)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}
