package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// of has what the informers of a fixture have, and looks at nothing: what it would look at waits in its queue.
func (f *fixture) of() *Controller {
	return &Controller{Config: f.Config, retries: newRetries(), queue: controller.New[controller.Request]("still", 1, nil)}
}

func answering(name string, silent bool) *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	ready := metav1.Condition{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)}
	if silent {
		ready.Status, ready.Reason = metav1.ConditionUnknown, fleetv1alpha1.ReasonHeartbeatLost
	}
	pc.Status.Conditions = []metav1.Condition{ready}
	return pc
}

// unitOn is a unit of its own on a physical cluster; undecided if that is empty.
func unitOn(name, physicalCluster string) *placementv1alpha1.Placement {
	p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: placementv1alpha1.NamespaceUnit, Namespace: name, Annotations: map[string]string{logicalcluster.AnnotationKey: "shop"}}}
	if physicalCluster != "" {
		p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: physicalCluster}}}
	}
	return p
}

// One that falls silent has the units on it looked at, and those on others only if that changes whether silence counts.
func TestWhatFallsSilentHasItsOwnUnitsLookedAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent []string // with the one that has just fallen silent, a
		cutOff bool     // said before
		want   int
	}{
		"one of five":                 {[]string{"a"}, false, 1},
		"the second of five":          {[]string{"a", "b"}, false, 1},
		"most are silent now":         {[]string{"a", "b", "c"}, false, 3},
		"most are, and were":          {[]string{"a", "b", "c", "east"}, true, 1},
		"most are no more, and it is": {[]string{"a", "b"}, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stored []runtime.Object
			for _, one := range []string{"a", "b", "c", "east", "west"} {
				stored = append(stored, answering(one, slices.Contains(c.silent, one)), unitOn("on-"+one, one))
			}
			still := newFixture(t, stored...).of()
			still.cutOff = c.cutOff
			still.silenceChanged(answering("a", true), answering("a", true))
			if n := still.queue.Len(); n != 0 {
				t.Errorf("%d units are looked at when nothing changed", n)
			}
			still.silenceChanged(answering("a", false), answering("a", true))
			if n := still.queue.Len(); n != c.want || still.cutOff != (len(c.silent) > 2) {
				t.Errorf("%d units are looked at, want %d; silence counts for nothing: %v", n, c.want, still.cutOff)
			}
		})
	}
}

// A report has undecided units tried, those beyond the first ones later, and what is placed has one of these tried at once.
func TestAReportTriesUndecidedUnitsInTheirPace(t *testing.T) {
	t.Parallel()
	stored := []runtime.Object{unitOn("placed", "east")}
	for i := range retriesAtOnce + 10 {
		stored = append(stored, unitOn(fmt.Sprintf("n%03d", i), ""))
	}
	still := newFixture(t, stored...).of()
	for range 10 {
		still.retryAll()
	}
	later := func() (n int) {
		for _, due := range still.retries.of["shop"].due {
			if due.After(still.Clock.Now()) {
				n++
			}
		}
		return n
	}
	waiting := later()
	if n := still.queue.Len(); n < retriesAtOnce || waiting != 10 {
		t.Errorf("%d are tried at once, and %d wait", n, waiting)
	}
	still.placementChanged(unitOn("placed", ""), unitOn("placed", "east"))
	still.placementChanged(unitOn("placed", "east"), unitOn("placed", "west")) // it has moved
	if left := later(); left != waiting-1 {
		t.Errorf("%d wait after one was placed, and %d did before", left, waiting)
	}
}
