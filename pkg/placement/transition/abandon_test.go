package transition

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhereAUnitGoesBackTo(t *testing.T) {
	spec := func(phase placementv1alpha1.TransitionPhase, decided, to, from, withdrawn []string) placementv1alpha1.PlacementSpec {
		s := placementv1alpha1.PlacementSpec{Decision: &placementv1alpha1.Decision{}, Transition: &placementv1alpha1.Transition{Phase: phase, To: to, From: from, Withdrawn: withdrawn}}
		for _, name := range decided {
			s.Decision.PhysicalClusters = append(s.Decision.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: name})
		}
		return s
	}
	l := func(names ...string) []string { return names }
	settled := spec(starting, l("east"), nil, nil, nil)
	settled.Transition = nil
	for name, c := range map[string]struct {
		spec placementv1alpha1.PlacementSpec
		want []string
	}{
		"it is undecided":                            {placementv1alpha1.PlacementSpec{}, nil},
		"it does not move":                           {settled, nil},
		"to where it was":                            {spec(starting, l("west"), l("west"), l("east"), nil), l("east")},
		"with what stays":                            {spec(starting, l("north", "west"), l("west"), l("east"), nil), l("east", "north")},
		"traffic was withdrawn":                      {spec(draining, l("west"), l("west"), l("east"), nil), nil},
		"it is removed there":                        {spec(removing, l("west"), l("west"), l("east"), nil), nil},
		"nothing is left for what is added":          {spec(starting, l("east", "west"), l("west"), nil, nil), nil},
		"nothing new comes":                          {spec(starting, l("east"), nil, l("west"), nil), nil},
		"what it had only begun is not where it was": {spec(starting, l("north"), l("north"), l("east", "west"), l("west")), l("east")},
		"it goes back already":                       {spec(starting, l("east"), nil, l("west"), l("west")), nil},
		"nothing that it leaves had the traffic":     {spec(starting, l("east", "north"), l("north"), l("west"), l("west")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Origin(c.spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// To go back is to abandon a move: who has the traffic keeps it, and what was begun is removed.
func TestAUnitGoesBackAsIfItHadBeenPinned(t *testing.T) {
	begun := Begin(placementv1alpha1.PlacementSpec{Decision: &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}}}},
		[]string{"west"}, placementv1alpha1.CauseReturn, placementv1alpha1.MoveTimes{DrainSeconds: 5}, noon)
	spec := placementv1alpha1.PlacementSpec{Decision: &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "west"}}}, Transition: begun}
	back := Begin(spec, Origin(spec), placementv1alpha1.CauseStuck, placementv1alpha1.MoveTimes{DrainSeconds: 5}, noon)
	if back == nil || len(back.To) > 0 {
		t.Fatalf("%+v", back)
	}
	if diff := cmp.Diff([][]string{{"west"}, {"west"}}, [][]string{back.From, back.Withdrawn}); diff != "" {
		t.Errorf("what it leaves, without traffic (-want +got):\n%s", diff)
	}
}

func TestAMoveThatWaitsForAJobLacksNothing(t *testing.T) {
	way := &placementv1alpha1.Transition{Phase: draining, To: []string{"west"}, From: []string{"east"}}
	job := object(cronJobs, "nightly", `{"east":{},"west":{"state":"Waiting"}}`, nil, `east: Synced {"active":[{"name":"j"}]}`)
	for name, c := range map[string]struct {
		object  Object
		missing bool
	}{
		"a job runs":           {job, false},
		"pods are not there":   {web(`{"east":{},"west":{}}`, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":2}`), true},
		"it could leave as is": {web(`{"east":{},"west":{}}`, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), false},
	} {
		step := Next(way, State{Decided: []string{"west"}, Objects: []Object{c.object}, NotReady: map[string]string{}, Now: noon})
		if step.Missing != c.missing || (len(step.Waits) == 0) == (name != "it could leave as is") {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

func TestWhatKeepsAUnitFromGoingBack(t *testing.T) {
	silent := map[string]string{"north": "is silent", "east": "is silent, too"}
	for name, c := range map[string]struct {
		back Back
		want string
	}{
		"nothing":                     {Back{}, ""},
		"policies":                    {Back{Refused: "a taint", NotReady: silent, Obstacles: []string{"a claim"}}, "a taint"},
		"it is not known to be ready": {Back{NotReady: silent, Obstacles: []string{"a claim"}}, "east: is silent, too"},
		"what has begun there and cannot leave it": {Back{Obstacles: []string{"a claim", "a pod"}}, "a claim; a pod"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.back.Keeps()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheDigestOfAUnitIsThatOfItsPodTemplates(t *testing.T) {
	app := func(image string, replicas int64) Object {
		return object(deployments, "web", "{}", map[string]any{"replicas": replicas, "template": map[string]any{"spec": map[string]any{"image": image}}})
	}
	other := object(daemons, "web", "{}", map[string]any{"template": map[string]any{"spec": map[string]any{"image": "a"}}})
	mirrored := object(deployments, "mirrored", `{"east":{"state":"Observed"}}`, map[string]any{"template": map[string]any{}})
	is := Content([]Object{app("a", 1), other})
	for name, c := range map[string]struct {
		objects []Object
		same    bool
	}{
		"in another order":          {[]Object{other, app("a", 1)}, true},
		"scaled":                    {[]Object{app("a", 7), other}, true},
		"with what has no template": {[]Object{app("a", 1), other, serviceOf("web", "{}")}, true},
		"with a Job":                {[]Object{app("a", 1), other, object(jobs, "j", "{}", map[string]any{"template": map[string]any{}})}, true},
		"with what is mirrored":     {[]Object{app("a", 1), other, mirrored}, true},
		"with another image":        {[]Object{app("b", 1), other}, false},
		"without one":               {[]Object{app("a", 1)}, false},
		"with one more":             {[]Object{app("a", 1), other, set("db", "{}")}, false},
		"with nothing":              {nil, false},
	} {
		if got := Content(c.objects); (got == is) != c.same || got == "" {
			t.Errorf("%s: %q, and it was %q", name, got, is)
		}
	}
}
