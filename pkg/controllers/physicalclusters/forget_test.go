package physicalclusters

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestTheReportAddsUpAndIsBounded(t *testing.T) {
	var copies []*placementv1alpha1.Copy
	for i := range 15 {
		copies = append(copies, &placementv1alpha1.Copy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Annotations: map[string]string{"kcp.io/cluster": "shop"}},
			Spec:       placementv1alpha1.CopySpec{Object: placementv1alpha1.ObjectReference{Resource: "pods", Name: fmt.Sprint(i)}},
		})
	}
	first := report(nil, copies, noon)
	if first.Copies != 15 || first.Sample[0] != "shop/web/pods/0" {
		t.Errorf("first report %+v", first)
	}
	second := report(first, copies, noon.Add(time.Minute))
	if second.Copies != 30 || len(second.Sample) != maxSample || !second.At.Time.Equal(noon.Add(time.Minute)) {
		t.Errorf("second report %+v", second)
	}
	if third := report(second, nil, noon.Add(time.Hour)); third != second {
		t.Errorf("nothing was forgotten, but the report changed: %+v", third)
	}
	empty := report(nil, nil, noon)
	if diff := cmp.Diff(&fleetv1alpha1.ForgetReport{At: metav1.NewTime(noon)}, empty); diff != "" {
		t.Errorf("an empty report (-want +got):\n%s", diff)
	}
}

func TestOnlyWhatWaitsForTheForgottenIsDeclaredGone(t *testing.T) {
	now := metav1.NewTime(noon)
	for _, c := range []struct {
		name, targets string
		deleting      bool
		want          bool
	}{
		{"deleted, a copy there", `{"east":{}}`, true, true},
		{"its copy has to go there", `{"east":{"state":"Removing"}}`, false, true},
		{"alive", `{"east":{}}`, false, false},
		{"deleted, a copy elsewhere", `{"west":{}}`, true, false},
		{"deleted, seen there", `{"east":{"state":"Observed","uid":"1"}}`, true, false},
		{"deleted, never placed", ``, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: c.targets}}}
			if c.deleting {
				o.DeletionTimestamp = &now
			}
			if got := waits(o, "east"); got != c.want {
				t.Errorf("waits = %v", got)
			}
		})
	}
}

func TestTheRecordOfWhatWasNeverMade(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "Namespace"})
	got := neverMade(kind, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}, "east")
	want := &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(schema.GroupResource{Resource: "namespaces"}, "web", "east"), Namespace: "web"},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{
			Version: "v1", Resource: "namespaces", Kind: "Namespace", Name: "web", UID: "1"}},
		Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyRemoved, Reason: "Forgotten",
			Message: "physical cluster east was forgotten; nobody saw the copy go"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPhysicalClusterIsInUseByCopiesAndDecisions(t *testing.T) {
	copies := []placementv1alpha1.Copy{
		{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}, {Spec: placementv1alpha1.CopySpec{PhysicalCluster: "west"}},
		{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}, Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyRemoved}},
	}
	placements := []placementv1alpha1.Placement{
		{}, {Spec: placementv1alpha1.PlacementSpec{Decision: &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}, {Name: "west"}}}}},
	}
	if diff := cmp.Diff(usage{copies: 2, placements: 1}, use("east", copies, placements), cmp.AllowUnexported(usage{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := use("north", copies, placements); got != (usage{}) {
		t.Errorf("a physical cluster that nothing names is in use: %+v", got)
	}

	// Of a namespace of root there is nothing below but what is in it.
	root := metav1.ObjectMeta{Namespace: "addons", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}
	copies = []placementv1alpha1.Copy{{ObjectMeta: root, Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}}
	placements[1].ObjectMeta = root
	if got := use("east", copies, placements); got != (usage{}) {
		t.Errorf("a namespace of root with nothing in it is in the way: %+v", got)
	}
	copies = append(copies, *copies[0].DeepCopy())
	copies[1].Spec.Object.Group = fleetv1alpha1.GroupName
	if diff := cmp.Diff(usage{copies: 1, placements: 1}, use("east", copies, placements), cmp.AllowUnexported(usage{})); diff != "" {
		t.Errorf("what is carried (-want +got):\n%s", diff)
	}
}
