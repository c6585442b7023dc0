package transition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

var autoscalers = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}

// scales is an autoscaler of the Deployment web, between two and 30 replicas.
func scales(targets string) stamp.Other {
	o := object(autoscalers, "web", targets, map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": int64(2), "maxReplicas": int64(30),
	})
	return stamp.Other{Kind: o.Kind, Unstructured: o.Logical}
}

func with(t *testing.T, o stamp.Other, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// declared is something else that does so, of which no bounds are known.
func declared(targets string) stamp.Other {
	o := scales(targets)
	o.Kind.Semantics, o.Kind.Kind = "", "ScaledObject"
	return o
}

func TestWhatWasScaledIsReplacedByAsMany(t *testing.T) {
	t.Parallel()
	const (
		both    = `{"east":{},"west":{}}`
		started = `{"east":{},"west":{"start":{"replicas":20,"wish":3}}}`
		waits   = `{"east":{},"west":{"state":"Waiting"}}`
		twenty  = `east: Synced {"replicas":20,"availableReplicas":20}`
	)
	for _, c := range []struct {
		name    string
		phase   placementv1alpha1.TransitionPhase
		object  Object
		scalers []stamp.Other
		waits   string
	}{
		{"no autoscaler: what is wanted", starting, web(both, twenty, `west: Synced {"replicas":3,"availableReplicas":3}`), nil, ""},
		{"fewer than run", starting, web(started, twenty, `west: Synced {"replicas":20,"availableReplicas":19}`), []stamp.Other{scales(waits)}, "Deployment web on west: 19 of 20 pods are available"},
		{"as many as run", starting, web(started, twenty, `west: Synced {"replicas":20,"availableReplicas":20}`), []stamp.Other{scales(waits)}, ""},
		{"not made yet", starting, web(started, twenty, `west: Synced {"replicas":3,"availableReplicas":3}`), []stamp.Other{scales(waits)}, "Deployment web on west: 3 of 20 pods are available"},
		{"a quota", starting, web(started, twenty, `west: Synced {"replicas":3,"availableReplicas":3,"conditions":[{"type":"ReplicaFailure","status":"True","message":"exceeded quota"}]}`),
			[]stamp.Other{scales(waits)}, "Deployment web on west: 3 of 20 pods are available (exceeded quota)"},
		{"a quota that is over", starting, web(started, twenty, `west: Synced {"replicas":20,"availableReplicas":3,"conditions":[{"type":"ReplicaFailure","status":"False","message":"exceeded quota"}]}`),
			[]stamp.Other{scales(waits)}, "Deployment web on west: 3 of 20 pods are available"},
		{"fewer run by now", starting, web(started, `east: Synced {"replicas":4,"availableReplicas":4}`, `west: Synced {"replicas":10,"availableReplicas":10}`), []stamp.Other{scales(waits)}, ""},
		{"none does", starting, web(`{"east":{},"west":{"start":{"replicas":0,"wish":3}}}`, `east: Synced {}`, `west: Synced {}`), []stamp.Other{scales(waits)}, ""},
		{"the autoscaler wants fewer there", draining, web(started, twenty, `west: Synced {"replicas":10,"availableReplicas":10}`), []stamp.Other{scales(both)}, ""},
		{"the pods are gone there", draining, web(started, twenty, `west: Synced {"replicas":20,"availableReplicas":4}`), []stamp.Other{scales(both)}, "Deployment web on west: 4 of 20 pods are available"},
		{"there are none at all", draining, web(started, twenty, `west: Synced {}`), []stamp.Other{scales(both)}, "Deployment web on west: 0 of 1 pods are available"},
		{"another number is wanted", starting, web(`{"east":{},"west":{"start":{"replicas":20,"wish":5}}}`, twenty, `west: Synced {"replicas":3,"availableReplicas":3}`), []stamp.Other{scales(waits)}, ""},
		{"something else that scales it", starting, web(started, twenty, `west: Synced {"replicas":20,"availableReplicas":19}`), []stamp.Other{declared(waits)}, "Deployment web on west: 19 of 20 pods are available"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.object.Scalers = stamp.ScalersOf(c.scalers)
			transition := &placementv1alpha1.Transition{Phase: c.phase, Since: metav1.NewTime(noon), From: []string{"east"}, To: []string{"west"}}
			step := Next(transition, State{Decided: []string{"west"}, Objects: []Object{c.object}, Now: noon.Add(1)})
			if got := strings.Join(step.Waits, "; "); got != c.waits {
				t.Errorf("it waits for %q, want %q", got, c.waits)
			}
			if want := c.waits == ""; (step.Phase != starting && step.Phase != c.phase) != want {
				t.Errorf("the phase is %s", step.Phase)
			}
		})
	}
}

func TestWhatRunsIsWhatCopiesSayWhereAUnitLeaves(t *testing.T) {
	t.Parallel()
	const idleThere = `east: Synced {"conditions":[{"type":"Available","status":"True"}]}`
	low := scales(`{"east":{}}`)
	with(t, low, int64(10), "spec", "maxReplicas")
	high := scales(`{"east":{}}`)
	with(t, high, int64(25), "spec", "minReplicas")
	other, going := scales(`{"east":{}}`), scales(`{"east":{}}`)
	with(t, other, "api", "spec", "scaleTargetRef", "name")
	now := metav1.NewTime(noon)
	going.SetDeletionTimestamp(&now)
	leaves, drains := stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartArrives}, stamp.Unit{"east": stamp.PartDrains, "west": stamp.PartStays}
	yes := func(n *int32) *stamp.Scaling { return &stamp.Scaling{Wish: 3, Scaled: true, Runs: n} }
	for name, c := range map[string]struct {
		unit    stamp.Unit
		scalers []stamp.Other
		copies  []string
		change  func(*Object)
		want    *stamp.Scaling
	}{
		"as many as run":                    {leaves, []stamp.Other{scales(`{}`)}, []string{`east: Synced {"replicas":20}`}, nil, yes(ptr.To[int32](20))},
		"no fewer than are wanted":          {leaves, []stamp.Other{scales(`{}`)}, []string{`east: Synced {"replicas":2}`}, nil, yes(ptr.To[int32](3))},
		"no more than the autoscaler lets":  {leaves, []stamp.Other{low}, []string{`east: Synced {"replicas":20}`}, nil, yes(ptr.To[int32](10))},
		"no fewer than the autoscaler lets": {leaves, []stamp.Other{high}, []string{`east: Synced {"replicas":20}`}, nil, yes(ptr.To[int32](25))},
		"bounds are not known":              {leaves, []stamp.Other{declared(`{}`)}, []string{`east: Synced {"replicas":200}`}, nil, yes(ptr.To[int32](200))},
		"nobody scales it":                  {leaves, []stamp.Other{}, []string{`east: Synced {"replicas":20}`}, nil, &stamp.Scaling{Wish: 3}},
		"another is scaled":                 {leaves, []stamp.Other{other}, []string{`east: Synced {"replicas":20}`}, nil, &stamp.Scaling{Wish: 3}},
		"scaled no more":                    {leaves, []stamp.Other{going}, []string{`east: Synced {"replicas":20}`}, nil, &stamp.Scaling{Wish: 3}},
		"nobody knows":                      {leaves, nil, []string{`east: Synced {"replicas":20}`}, nil, nil},
		"nothing has been said":             {leaves, []stamp.Other{scales(`{}`)}, []string{`east: Synced`}, nil, yes(nil)},
		"nothing of what there is now":      {leaves, []stamp.Other{scales(`{}`)}, []string{`east: Synced {"replicas":20}`}, func(o *Object) { o.Copies["east"].Status.ObservedGeneration = 0 }, yes(nil)},
		"the place that it goes to":         {leaves, []stamp.Other{scales(`{}`)}, []string{`east: Synced {"replicas":4}`, `west: Synced {"replicas":20}`}, nil, yes(ptr.To[int32](4))},
		"it does not serve there any more":  {drains, []stamp.Other{scales(`{}`)}, []string{`east: Synced {"replicas":20}`}, nil, nil},
		"scaled to nothing":                 {leaves, []stamp.Other{declared(`{}`)}, []string{idleThere}, nil, yes(ptr.To[int32](0))},
		"scaled to nothing by a person":     {leaves, []stamp.Other{scales(`{}`)}, []string{idleThere}, nil, yes(ptr.To[int32](0))},
		"stopped by its user":               {leaves, []stamp.Other{scales(`{}`)}, []string{`east: Synced {"replicas":20}`}, func(o *Object) { with(t, stamp.Other{Unstructured: o.Logical}, int64(0), "spec", "replicas") }, &stamp.Scaling{}},
		"none wanted, scaled from nothing":  {leaves, []stamp.Other{declared(`{}`)}, []string{`east: Synced {"replicas":20}`}, func(o *Object) { with(t, stamp.Other{Unstructured: o.Logical}, int64(0), "spec", "replicas") }, &stamp.Scaling{Scaled: true, Runs: ptr.To[int32](20)}},
		"unable to make any":                {leaves, []stamp.Other{declared(`{}`)}, []string{`east: Synced {"conditions":[{"type":"Available","status":"False"}]}`}, nil, yes(nil)},
		"divided":                           {leaves, []stamp.Other{scales(`{}`)}, []string{`east: Synced {"replicas":20}`}, func(o *Object) { o.Division = &placementv1alpha1.DecidedDivision{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := web(`{"east":{}}`, c.copies...)
			o.Unit, o.Scalers = c.unit, stamp.ScalersOf(c.scalers)
			if c.change != nil {
				c.change(&o)
			}
			if diff := cmp.Diff(c.want, o.Scaling()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Who reads more than was known at the start asks to have it stamped, and not again after that.
func TestWhatIsScaledIsBehindUntilItHasItsStart(t *testing.T) {
	t.Parallel()
	for targets, want := range map[string]bool{
		`{"east":{}}`:           true,
		`{"east":{},"west":{}}`: true,
		`{"east":{},"west":{"start":{"replicas":19,"wish":3}}}`: true,
		`{"east":{},"west":{"start":{"replicas":20,"wish":3}}}`: false,
		`{"east":{},"west":{"start":{"replicas":21,"wish":3}}}`: false, // it does not flap
	} {
		o := web(targets, `east: Synced {"replicas":20}`)
		o.Logical.SetNamespace("shop")
		o.Unit, o.Scalers = stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartArrives}, stamp.ScalersOf([]stamp.Other{scales(`{}`)})
		if got := o.Behind("demo"); got != want {
			t.Errorf("%s: %v", targets, got)
		}
	}
}
