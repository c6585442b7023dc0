package syncer

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAFailureIsOneEventForEachThingThatIsSaid(t *testing.T) {
	failed := func(reason string) *placementv1alpha1.Copy {
		c := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Namespace: "web", UID: "c"}}
		c.Spec.PhysicalCluster = "east"
		c.Spec.Object = placementv1alpha1.ObjectReference{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: strings.Repeat("a", 250), UID: "u"}
		c.Status = placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyFailed, Reason: reason, Message: "no"}
		return c
	}
	at := metav1.Unix(1, 0)
	event := CopyEvent(nil, failed("Forbidden"), at)
	if event == nil || event.Message != "east: no" || event.InvolvedObject.APIVersion != "apps/v1" || event.InvolvedObject.UID != "u" || len(event.Name) > 253 {
		t.Fatalf("%+v", event)
	}
	if again := CopyEvent(failed("Forbidden"), failed("Forbidden"), at); again != nil {
		t.Errorf("the same is said again: %s", again.Message)
	}
	if other := CopyEvent(failed("Forbidden"), failed("Invalid"), at); other == nil || other.Name == event.Name {
		t.Errorf("another failure: %+v", other)
	}
	stays := failed("Forbidden")
	stays.Status.State = placementv1alpha1.CopyRemoving
	if e := CopyEvent(failed("Forbidden"), stays, at); e == nil || e.Reason != "Forbidden" || e.Message != "east: the copy is not removed: no" || CopyEvent(stays, stays, at) != nil {
		t.Errorf("a removal that is refused: %+v", e)
	}
	going := failed("Removing")
	going.Status.State = placementv1alpha1.CopyRemoving
	synced := failed("")
	synced.Status.State = placementv1alpha1.CopySynced
	namespace := failed("Forbidden")
	namespace.Spec.Object = placementv1alpha1.ObjectReference{Version: "v1", Resource: "namespaces", Kind: "Namespace", Name: "web"}
	for name, c := range map[string]*placementv1alpha1.Copy{"no failure": synced, "a removal that waits for finalizers": going, "a Namespace, whose objects have events": namespace} {
		if e := CopyEvent(nil, c, at); e != nil {
			t.Errorf("%s: %s", name, e.Message)
		}
	}
}

func TestOfAClaimThatIsMadeAgainThereIsAnEventWhereItsDataMayBeLost(t *testing.T) {
	for name, c := range map[string]struct {
		s    situation
		want bool
	}{
		"its volume is another one":  {situation{kind: "PersistentVolumeClaim", logical: "live", copy: "Synced"}, true},
		"it was never made":          {situation{kind: "PersistentVolumeClaim", logical: "live", copy: "Pending"}, false},
		"nothing has data":           {situation{kind: "ConfigMap", logical: "live", copy: "Synced"}, false},
		"its volume was kept for it": {situation{kind: "PersistentVolumeClaim", logical: "live", copy: "Synced", edit: func(in *Input) { in.Copy.Status.Volume = &placementv1alpha1.CopyVolume{Name: "v", Retained: true} }}, false},
		"it is handed over once more": {situation{kind: "PersistentVolumeClaim", logical: "live", copy: "Synced", edit: func(in *Input) {
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":` + handedOver + `}`})
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := c.s.input()
			a := only(Plan(in))
			if a.Verb != WriteCopy {
				if c.want || in.Copy.Status.PhysicalUID != "" {
					t.Fatalf("it does %s", a.Verb)
				}
				return
			}
			event := CopyEvent(in.Copy, a.Copy, metav1.Unix(1, 0))
			if (event != nil) != c.want || event != nil && (event.Reason != ReasonMadeAgain || !strings.Contains(event.Message, "empty")) {
				t.Errorf("the event is %+v", event)
			}
		})
	}
}
