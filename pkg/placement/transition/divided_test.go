package transition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

func six(targets string, copies ...string) Object {
	return object(deployments, "web", targets, map[string]any{"replicas": int64(6)}, copies...)
}

func TestNoPartGoesBeforeTheOthersMakeGoodForIt(t *testing.T) {
	t.Parallel()
	const undivided = `{"east":{},"west":{"replicas":3}}`
	const one, swap = `{"east":{"replicas":6},"west":{"replicas":3}}`, `{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":3}}`
	for _, c := range []struct {
		name    string
		decided []string
		object  Object
		waits   string
	}{
		{"the other one has its own part only", []string{"east"}, six(one, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), "Deployment web: 3 of 6 pods are available"},
		{"the other one has all", []string{"east"}, six(one, `east: Synced {"availableReplicas":6}`, `west: Synced {"availableReplicas":3}`), ""},
		{"what goes had one", []string{"east"}, six(one, `east: Synced {"availableReplicas":4}`, `west: Synced {"availableReplicas":1}`), ""},
		{"what goes had none", []string{"east"}, six(one, `east: Synced {"availableReplicas":2}`, `west: Synced {"availableReplicas":0}`), ""},
		{"what comes is not there yet", []string{"east", "north"}, six(swap, `east: Synced {"availableReplicas":3}`, `north: Synced {"availableReplicas":1}`, `west: Synced {"availableReplicas":3}`), "Deployment web: 4 of 6 pods are available"},
		{"what comes is there", []string{"east", "north"}, six(swap, `east: Synced {"availableReplicas":3}`, `north: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), ""},
		{"what stays was short, and is", []string{"east", "north"}, six(swap, `east: Synced {"availableReplicas":1}`, `north: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), ""},
		{"divided no more, and not raised yet", []string{"east"}, six(undivided, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), "Deployment web: 3 of 6 pods are available"},
		{"divided no more, and raised", []string{"east"}, six(undivided, `east: Synced {"availableReplicas":6}`, `west: Synced {"availableReplicas":3}`), ""},
		{"divided no more, what goes had none", []string{"east"}, six(undivided, `east: Synced {"availableReplicas":2}`, `west: Synced {"availableReplicas":0}`), ""},
		{"all of one in two parts", []string{"east", "north"}, six(`{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":6}}`,
			`east: Synced {"availableReplicas":3}`, `north: Synced {"availableReplicas":2}`, `west: Synced {"availableReplicas":6}`), "Deployment web: 5 of 6 pods are available"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			transition := &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), From: []string{"west"}, To: []string{"north"}}
			step := Next(transition, State{Decided: c.decided, Objects: []Object{c.object}, Now: noon})
			if got := strings.Join(step.Waits, "; "); got != c.waits {
				t.Errorf("it waits for %q, want %q", got, c.waits)
			}
			if want := c.waits == ""; (step.Phase == draining) != want {
				t.Errorf("the phase is %s", step.Phase)
			}
		})
	}
}

func TestAServiceWaitsForTheEndpointsOfAllThatIsAvailableOfAPart(t *testing.T) {
	t.Parallel()
	const targets = `{"east":{"replicas":6},"west":{"replicas":3}}`
	app := object(deployments, "web", targets, map[string]any{
		"replicas": int64(6), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}},
	}, `east: Synced {"availableReplicas":6}`, `west: Synced {"availableReplicas":3}`)
	front := serviceOf("web", `{"east":{},"west":{}}`, "east: Synced", "west: Synced")
	transition := &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), From: []string{"west"}}
	s := State{Decided: []string{"east"}, Objects: []Object{app, front}, Now: noon}
	for ready, want := range map[int]string{3: "Service front on east: 3 of 6 endpoints are ready", 6: ""} {
		s.Endpoints = map[string]map[string]int{"front": {"east": ready, "west": 3}}
		if got := strings.Join(Next(transition, s).Waits, "; "); got != want {
			t.Errorf("with %d: %q, want %q", ready, got, want)
		}
	}
}

// scaledBy is an object in a namespace with an autoscaler.
func scaledBy(o Object, by stamp.Other) Object {
	o.Scalers = stamp.ScalersOf([]stamp.Other{by})
	return o
}

// Of what has fewer replicas than places, or a weight of none, a place has nothing that its Service could lead to.
func TestAServiceWaitsForNoEndpointsWhereNoPodsAreWanted(t *testing.T) {
	t.Parallel()
	labelled := func(spec map[string]any) map[string]any {
		spec["template"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}}
		return spec
	}
	one := func(targets string, copies ...string) Object {
		return object(deployments, "web", targets, labelled(map[string]any{"replicas": int64(1)}), copies...)
	}
	const parts, everywhere = `{"east":{"replicas":1},"north":{"replicas":0},"west":{"replicas":1}}`, `{"east":{},"north":{},"west":{}}`
	app := one(parts, `east: Synced {"availableReplicas":1}`, `north: Synced`, `west: Synced {"availableReplicas":1}`)
	front := serviceOf("web", everywhere, "east: Synced", "north: Synced", "west: Synced")
	now := metav1.NewTime(noon)
	going := one(everywhere, "north: Synced")
	going.Logical.SetDeletionTimestamp(&now)
	ofEach := object(daemons, "web", everywhere, labelled(map[string]any{}), "north: Synced")
	mirrored := object(replicaSets, "web-1", `{"north":{"state":"Observed","uid":"1"}}`, labelled(map[string]any{"replicas": int64(1)}))
	for name, c := range map[string]struct {
		objects []Object
		want    string
	}{
		"no part is there":                 {[]Object{app}, ""},
		"it is to have one":                {[]Object{one(`{"east":{"replicas":1},"north":{"replicas":0,"share":1},"west":{"replicas":1}}`, `east: Synced {"availableReplicas":1}`, "north: Synced")}, "0 of 1"},
		"another one is to be there":       {[]Object{app, one(everywhere, "north: Synced")}, "0 of 1"},
		"another one is scaled to nothing": {[]Object{app, object(deployments, "none", everywhere, labelled(map[string]any{"replicas": int64(0)}), "north: Synced")}, ""},
		"another one gets its first ordinals": {[]Object{app, object(sets, "set", `{"north":{"replicas":0,"share":1,"ordinals":{"start":0,"revision":1}},"west":{"replicas":1,"ordinals":{"start":0,"revision":1}}}`,
			labelled(map[string]any{"replicas": int64(1)}), "north: Synced")}, ""},
		"another one is stopped first":        {[]Object{app, object(sets, "set", `{"north":{"state":"Waiting"},"west":{}}`, labelled(map[string]any{"replicas": int64(1)}))}, ""},
		"an autoscaler divides it":            {[]Object{scaledBy(app, scales(`{}`))}, ""},
		"an autoscaler makes some of nothing": {[]Object{scaledBy(app, declared(`{}`))}, "0 of 1"},
		"another one is going":                {[]Object{app, going}, ""},
		"another one runs on each node":       {[]Object{app, ofEach}, "0 of 1"},
		"what a controller made of it before": {[]Object{app, mirrored}, ""},
		"nobody knows what makes the pods":    {nil, "0 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := State{Decided: []string{"east", "north"}, Objects: append([]Object{front}, c.objects...), Now: noon}
			s.Endpoints = map[string]map[string]int{"front": {"east": 1, "west": 1}}
			want := ""
			if c.want != "" {
				want = c.want + " endpoints are ready"
			}
			if got, _ := s.lacks(front, "north", []string{"west"}); got != want {
				t.Errorf("it lacks %q, want %q", got, want)
			}
		})
	}
}

func TestReplicasCountAsTakenOverWhenServicesLeadToThem(t *testing.T) {
	t.Parallel()
	const targets = `{"east":{"replicas":6,"share":2},"north":{"replicas":1},"west":{"replicas":3}}`
	labels := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}}
	app := object(deployments, "web", targets, map[string]any{"replicas": int64(6), "template": labels},
		`east: Synced {"availableReplicas":6}`, `north: Removed {"availableReplicas":1}`, `west: Synced {"availableReplicas":3}`)
	canary := object(deployments, "canary", targets, map[string]any{"replicas": int64(2), "template": labels}, `west: Synced {"availableReplicas":2}`)
	other := object(deployments, "other", targets, map[string]any{"replicas": int64(2)}, `west: Synced {"availableReplicas":2}`)
	front := serviceOf("web", targets)
	back := object(services, "back", targets, map[string]any{"selector": map[string]any{"app": "web"}})
	elsewhere := serviceOf("db", targets)
	named := object(services, "front", targets, map[string]any{"type": "ExternalName", "selector": map[string]any{"app": "web"}})
	going := serviceOf("web", targets)
	now := metav1.NewTime(noon)
	going.Logical.SetDeletionTimestamp(&now)
	type ready = map[string]map[string]int
	for name, c := range map[string]struct {
		objects   []Object
		endpoints ready
		west      int32
		by        string
	}{
		"no Service":                              {[]Object{app, canary, other}, nil, 3, ""},
		"a Service of something else":             {[]Object{app, elsewhere}, ready{"front": {"east": 6}}, 3, ""},
		"a Service that has none yet":             {[]Object{app, front}, ready{"front": {"east": 6}}, 0, "front"},
		"a Service that has two":                  {[]Object{app, front}, ready{"front": {"east": 6, "west": 2}}, 2, "front"},
		"a Service that has all":                  {[]Object{app, front}, ready{"front": {"east": 6, "west": 3}}, 3, ""},
		"a Service that has more, of other pods":  {[]Object{app, front}, ready{"front": {"east": 6, "west": 7}}, 3, ""},
		"two Services, one of which has fewer":    {[]Object{app, front, back}, ready{"front": {"east": 6, "west": 3}, "back": {"east": 6, "west": 1}}, 1, "back"},
		"a Service that leads nowhere":            {[]Object{app, front}, nil, 3, ""},
		"a Service that leads elsewhere only":     {[]Object{app, front}, ready{"front": {"west": 1}}, 3, ""},
		"a Service that is about to go":           {[]Object{app, going}, ready{"front": {"east": 6}}, 3, ""},
		"another name of something":               {[]Object{app, named}, ready{"front": {"east": 6}}, 3, ""},
		"others that it selects have theirs":      {[]Object{app, canary, front}, ready{"front": {"east": 6, "west": 5}}, 3, ""},
		"what others lack may be of this one":     {[]Object{app, canary, front}, ready{"front": {"east": 6, "west": 3}}, 1, "front"},
		"what it does not select has no endpoint": {[]Object{app, other, front}, ready{"front": {"east": 6, "west": 3}}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, by := State{Objects: c.objects, Endpoints: c.endpoints}.Reached(app, []string{"east"})
			if diff := cmp.Diff(map[string]int32{"east": 6, "west": c.west}, got); diff != "" || by != c.by {
				t.Errorf("by %q, want %q (-want +got):\n%s", by, c.by, diff)
			}
		})
	}
}

func TestWhatAnAutoscalerHasCountsAsThePart(t *testing.T) {
	t.Parallel()
	const (
		targets = `{"east":{"replicas":3,"share":0},"west":{"replicas":6}}`
		both    = `{"east":{"replicas":1,"max":9},"west":{"replicas":1,"max":9}}`
		waits   = `{"east":{"replicas":1,"max":9},"west":{"state":"Waiting"}}`
	)
	for name, c := range map[string]struct {
		west    string
		scalers []stamp.Other
		want    int32
	}{
		"it wants fewer":           {`west: Synced {"replicas":2,"availableReplicas":2}`, []stamp.Other{scales(both)}, 6},
		"it wants more":            {`west: Synced {"replicas":8,"availableReplicas":8}`, []stamp.Other{scales(both)}, 8},
		"some of them lack":        {`west: Synced {"replicas":2,"availableReplicas":1}`, []stamp.Other{scales(both)}, 1},
		"there are none":           {`west: Synced {"replicas":0,"availableReplicas":0}`, []stamp.Other{scales(both)}, 0},
		"it waits for traffic":     {`west: Synced {"replicas":2,"availableReplicas":2}`, []stamp.Other{scales(waits)}, 2},
		"nothing scales it":        {`west: Synced {"replicas":2,"availableReplicas":2}`, nil, 2},
		"something else scales it": {`west: Synced {"replicas":2,"availableReplicas":2}`, []stamp.Other{declared(both)}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := object(deployments, "web", targets, map[string]any{"replicas": int64(6)}, c.west)
			o.Scalers = stamp.ScalersOf(c.scalers)
			have := map[string]int32{}
			have["west"], _ = Available(o.Copies["west"])
			if diff := cmp.Diff(map[string]int32{"west": c.want}, o.TakenOver(have)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
