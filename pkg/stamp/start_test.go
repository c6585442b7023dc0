package stamp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestACopyBeginsWithWhatAnAutoscalerMadeOfItElsewhere(t *testing.T) {
	const (
		starting = placementv1alpha1.TransitionStarting
		draining = placementv1alpha1.TransitionDraining
		removing = placementv1alpha1.TransitionRemoving

		twenty = `"start":{"replicas":20,"wish":3}`
	)
	runs := func(n int32) *Scaling { return &Scaling{Wish: 3, Scaled: true, Runs: ptr.To(n)} }
	wishes := func(n int32) *Scaling { return &Scaling{Wish: n, Scaled: true} }
	deployment, statefulSet := kindOf("apps", "Deployment"), kindOf("apps", "StatefulSet")
	for _, c := range []struct {
		name    string
		kind    workload.Kind
		runs    workload.Runs
		phase   placementv1alpha1.TransitionPhase
		current string
		scaling *Scaling
		want    string
	}{
		{"what runs goes along", deployment, "", starting, `{"east":{}}`, runs(20), `{"east":{},"west":{` + twenty + `}}`},
		{"as much as is wanted anyway", deployment, "", starting, `{"east":{}}`, runs(3), `{"east":{},"west":{}}`},
		{"no autoscaler", deployment, "", starting, `{"east":{}}`, &Scaling{Wish: 3}, `{"east":{},"west":{}}`},
		{"no autoscaler any more", deployment, "", starting, `{"east":{},"west":{` + twenty + `}}`, &Scaling{Wish: 3}, `{"east":{},"west":{}}`},
		{"nobody knows", deployment, "", starting, `{"east":{}}`, nil, `{"east":{},"west":{}}`},
		{"nobody knows any more", deployment, "", starting, `{"east":{},"west":{` + twenty + `}}`, nil, `{"east":{},"west":{` + twenty + `}}`},
		{"what runs is not known yet", deployment, "", starting, `{"east":{}}`, wishes(3), `{"east":{},"west":{}}`},
		{"it was not known before it began", deployment, "", starting, `{"east":{},"west":{}}`, runs(20), `{"east":{},"west":{` + twenty + `}}`},
		{"more by now", deployment, "", starting, `{"east":{},"west":{` + twenty + `}}`, runs(25), `{"east":{},"west":{"start":{"replicas":25,"wish":3}}}`},
		{"fewer by now", deployment, "", starting, `{"east":{},"west":{` + twenty + `}}`, runs(4), `{"east":{},"west":{` + twenty + `}}`},
		{"none runs", deployment, "", starting, `{"east":{}}`, runs(0), `{"east":{},"west":{"start":{"replicas":0,"wish":3}}}`},
		{"none runs still", deployment, "", starting, `{"east":{},"west":{"start":{"replicas":0,"wish":3}}}`, runs(0), `{"east":{},"west":{"start":{"replicas":0,"wish":3}}}`},
		{"some run by now", deployment, "", starting, `{"east":{},"west":{"start":{"replicas":0,"wish":3}}}`, runs(5), `{"east":{},"west":{"start":{"replicas":5,"wish":3}}}`},
		{"none runs, and some do here", deployment, "", starting, `{"east":{},"west":{}}`, runs(0), `{"east":{},"west":{}}`},
		{"more are wanted meanwhile", deployment, "", starting, `{"east":{},"west":{` + twenty + `}}`, wishes(30), `{"east":{},"west":{}}`},
		{"another number is wanted meanwhile", deployment, "", starting, `{"east":{},"west":{` + twenty + `}}`, wishes(5), `{"east":{},"west":{"start":{"replicas":20,"wish":5}}}`},
		{"none runs, and another number is wanted", deployment, "", starting, `{"east":{},"west":{"start":{"replicas":0,"wish":3}}}`, wishes(5), `{"east":{},"west":{"start":{"replicas":0,"wish":5}}}`},
		{"the phase follows", deployment, "", draining, `{"east":{},"west":{` + twenty + `}}`, runs(25), `{"east":{},"west":{` + twenty + `}}`},
		{"and another one", deployment, "", removing, `{"east":{},"west":{` + twenty + `}}`, runs(25), `{"east":{"state":"Removing"},"west":{` + twenty + `}}`},
		{"it is there", deployment, "", "", `{"west":{` + twenty + `}}`, wishes(3), `{"west":{` + twenty + `}}`},
		{"it is there, and another number is wanted", deployment, "", "", `{"west":{` + twenty + `}}`, wishes(5), `{"west":{}}`},
		{"it is there, and not scaled any more", deployment, "", "", `{"west":{` + twenty + `}}`, &Scaling{Wish: 3}, `{"west":{}}`},
		{"what runs once waits with it", statefulSet, workload.RunsOnce, starting, `{"east":{}}`, runs(20), `{"east":{},"west":{` + twenty + `,"state":"Waiting"}}`},
		{"and follows what runs", statefulSet, workload.RunsOnce, starting, `{"east":{},"west":{` + twenty + `,"state":"Waiting"}}`, runs(4), `{"east":{},"west":{"start":{"replicas":4,"wish":3},"state":"Waiting"}}`},
		{"and begins with it", statefulSet, workload.RunsOnce, removing, `{"west":{` + twenty + `,"state":"Waiting"}}`, wishes(3), `{"west":{` + twenty + `}}`},
		{"what was divided has parts", deployment, "", starting, `{"east":{"replicas":2}}`, runs(20), `{"east":{"replicas":2},"west":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := Source{Unit: UnitOf(placementIn(c.phase)), Runs: c.runs, Scaling: c.scaling}
			got := Targets(c.kind, "shop", object(c.current), source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := Targets(c.kind, "shop", object(got.String()), source); !Equal(got, again) {
				t.Errorf("stamped again: %s", again)
			}
			source.Scaling = nil // who does not know changes nothing
			if again := Targets(c.kind, "shop", object(got.String()), source); !Equal(got, again) {
				t.Errorf("stamped by who does not know: %s", again)
			}
		})
	}
}

func TestWhatStaysBeginsWithWhatRunsElsewhereIfItsAutoscalerWaits(t *testing.T) {
	unit := Unit{"west": PartLeaves, "east": PartStays}
	for name, c := range map[string]struct {
		waits []string
		want  string
	}{
		"it scales it there":          {nil, `{"east":{},"west":{}}`},
		"it waits until traffic does": {[]string{"east"}, `{"east":{"start":{"replicas":20,"wish":3}},"west":{}}`},
		"it waits elsewhere":          {[]string{"north"}, `{"east":{},"west":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			source := Source{Unit: unit, Scaling: &Scaling{Wish: 3, Scaled: true, Runs: ptr.To[int32](20), Waits: c.waits}}
			got := Targets(kindOf("apps", "Deployment"), "shop", object(`{"east":{},"west":{}}`), source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAutoscalerWaitsUntilTrafficComes(t *testing.T) {
	scaler := kindOf("autoscaling", "HorizontalPodAutoscaler")
	back := &placementv1alpha1.Placement{}
	back.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}}}
	back.Spec.Transition = &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionStarting, From: []string{"west"}, Withdrawn: []string{"west"}}
	more := placementIn(placementv1alpha1.TransitionStarting)
	more.Spec.Decision.PhysicalClusters = append(more.Spec.Decision.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: "east"})
	more.Spec.Transition.From = nil
	stays := placementIn(placementv1alpha1.TransitionStarting)
	stays.Spec.Decision.PhysicalClusters = append(stays.Spec.Decision.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: "north"})
	for _, c := range []struct {
		name          string
		unit          *placementv1alpha1.Placement
		current, want string
	}{
		{"as long as it serves elsewhere", placementIn(placementv1alpha1.TransitionStarting), `{"east":{}}`, `{"east":{},"west":{"state":"Waiting"}}`},
		{"it comes with the traffic", placementIn(placementv1alpha1.TransitionDraining), `{"east":{},"west":{"state":"Waiting"}}`, `{"east":{},"west":{}}`},
		{"or without any", placementIn(placementv1alpha1.TransitionRemoving), `{"east":{},"west":{"state":"Waiting"}}`, `{"east":{"state":"Removing"},"west":{}}`},
		{"the traffic goes back", placementIn(placementv1alpha1.TransitionStarting), `{"east":{},"west":{}}`, `{"east":{},"west":{"state":"Removing"}}`},
		{"and it is gone", placementIn(placementv1alpha1.TransitionStarting), `{"east":{},"west":{"state":"Removing"}}`, `{"east":{},"west":{"state":"Removing"}}`},
		{"the move is abandoned", back, `{"east":{},"west":{"state":"Waiting"}}`, `{"east":{}}`},
		{"nothing is left", more, `{"east":{}}`, `{"east":{},"west":{}}`},
		{"a new one", placementIn(placementv1alpha1.TransitionStarting), ``, `{"east":{},"west":{"state":"Waiting"}}`},
		{"it serves where it stays", stays, `{"east":{},"north":{}}`, `{"east":{},"north":{},"west":{"state":"Waiting"}}`},
		{"its bounds were divided", placementIn(placementv1alpha1.TransitionStarting), `{"east":{"replicas":1,"max":3}}`, `{"east":{"replicas":1,"max":3},"west":{"state":"Waiting"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := Source{Unit: UnitOf(c.unit)}
			got := Targets(scaler, "shop", object(c.current), source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := Targets(scaler, "shop", object(got.String()), source); !Equal(got, again) {
				t.Errorf("stamped again: %s", again)
			}
		})
	}
}

func TestAnObjectHasOneAutoscaler(t *testing.T) {
	hpa := kindOf("autoscaling", "HorizontalPodAutoscaler")
	scaler := func(name, of string, going bool) Other {
		o := Other{Kind: hpa, Unstructured: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": of}}}}}
		o.SetName(name)
		if going {
			o.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		}
		return o
	}
	deployment := kindOf("apps", "Deployment")
	all := ScalersOf([]Other{scaler("ends", "web", true), scaler("first", "web", false), scaler("second", "web", false), scaler("nobody's", "", false), {Kind: deployment, Unstructured: scaler("no autoscaler", "db", false).Unstructured}})
	if by, ok := all.Of(deployment, "web"); !ok || by.GetName() != "first" || len(all) != 1 {
		t.Errorf("%v of %d", by, len(all))
	}
	if by, ok := all.Of(kindOf("apps", "StatefulSet"), "web"); ok {
		t.Errorf("one of the same name of another kind: %v", by)
	}
	if ScalersOf(nil) != nil || ScalersOf([]Other{}) == nil {
		t.Error("none is not the same as not known")
	}
}
