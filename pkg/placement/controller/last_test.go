package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// A drain of what root carries would wait for those who need it there, and they for nothing.
func TestWhatIsInRootLeavesARemovedPhysicalClusterLast(t *testing.T) {
	other := placementOf("east")
	other.Annotations[logicalcluster.AnnotationKey] = "shop"
	for _, others := range [][]runtime.Object{nil, {other}} {
		f := newFixture(t, others...)
		now := metav1.NewTime(start)
		pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", DeletionTimestamp: &now}}
		s := placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{{PhysicalCluster: pc}}}
		f.leaveLast(&s, []string{"east"})
		stays := placement.Verify(s, placement.Unit{LogicalCluster: scope.Root, Namespace: "addons", Decided: []string{"east"}}).Satisfied
		if stays != (len(others) > 0) {
			t.Errorf("with %d others it stays: %v", len(others), stays)
		}
	}
	pc := placement.PhysicalCluster{PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", DeletionTimestamp: &metav1.Time{Time: start}}}}
	if v := placement.Verify(placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{pc}}, placement.Unit{LogicalCluster: "shop", Decided: []string{"east"}}); !v.Satisfied {
		t.Errorf("what is of tenants is moved by a deletion: %s", v.Message)
	}
}

func TestWhatIsInRootLeavesADrainedPhysicalClusterLast(t *testing.T) {
	of := func(cluster string, p *placementv1alpha1.Placement) *placementv1alpha1.Placement {
		p.Annotations[logicalcluster.AnnotationKey] = cluster
		return p
	}
	moving := of("shop", placementOf("west"))
	moving.Spec.Transition = &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionRemoving, From: []string{"east"}}
	drained := fleetv1alpha1.Drain{Requested: true}
	over := fleetv1alpha1.Drain{Requested: true, Deadline: &metav1.Time{Time: start}}
	cordoned := fleetv1alpha1.PhysicalClusterSpec{Unschedulable: true}
	for name, c := range map[string]struct {
		drain   fleetv1alpha1.Drain
		others  []runtime.Object
		decided []string
		last    []string
		asked   fleetv1alpha1.PhysicalClusterSpec
	}{
		"others are there":                 {drained, []runtime.Object{of("shop", placementOf("east"))}, []string{"east", "west"}, []string{"east"}, cordoned},
		"others are leaving":               {drained, []runtime.Object{moving}, []string{"east"}, []string{"east"}, cordoned},
		"others are there, and it is not":  {drained, []runtime.Object{of("shop", placementOf("east"))}, []string{"west"}, nil, cordoned},
		"others are elsewhere":             {drained, []runtime.Object{of("shop", placementOf("west"))}, []string{"east"}, nil, fleetv1alpha1.PhysicalClusterSpec{Drain: drained}},
		"others of root are there":         {drained, []runtime.Object{of("root", placementOf("east"))}, []string{"east"}, nil, fleetv1alpha1.PhysicalClusterSpec{Drain: drained}},
		"others are undecided":             {drained, []runtime.Object{of("shop", placementOf())}, []string{"east"}, nil, fleetv1alpha1.PhysicalClusterSpec{Drain: drained}},
		"nobody is there":                  {drained, nil, []string{"east"}, nil, fleetv1alpha1.PhysicalClusterSpec{Drain: drained}},
		"it is not drained":                {fleetv1alpha1.Drain{}, []runtime.Object{of("shop", placementOf("east"))}, []string{"east"}, nil, fleetv1alpha1.PhysicalClusterSpec{}},
		"the time of its drain is over":    {over, []runtime.Object{of("shop", placementOf("east"))}, []string{"east"}, nil, fleetv1alpha1.PhysicalClusterSpec{Drain: over}},
		"others are there before that was": {fleetv1alpha1.Drain{Requested: true, Deadline: &metav1.Time{Time: start.Add(1)}}, []runtime.Object{of("shop", placementOf("east"))}, []string{"east"}, []string{"east"}, cordoned},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.others...)
			pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: fleetv1alpha1.PhysicalClusterSpec{Drain: c.drain}}
			before := pc.DeepCopy()
			s := placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{{PhysicalCluster: pc}}}
			if diff := cmp.Diff(c.last, f.leaveLast(&s, c.decided)); diff != "" {
				t.Errorf("leaves last (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.asked, s.PhysicalClusters[0].Spec); diff != "" {
				t.Errorf("asked as if it were (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pc); diff != "" {
				t.Errorf("what the informer has was changed:\n%s", diff)
			}
		})
	}
}
