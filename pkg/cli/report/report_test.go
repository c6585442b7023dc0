package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rows are those of a table, cells separated by "|".
func rows(t *testing.T, table *metav1.Table) []string {
	t.Helper()
	var out []string
	for _, row := range table.Rows {
		if len(row.Cells) != len(table.ColumnDefinitions) {
			t.Fatalf("%d cells in %d columns: %v", len(row.Cells), len(table.ColumnDefinitions), row.Cells)
		}
		var cells []string
		for _, cell := range row.Cells {
			cells = append(cells, fmt.Sprint(cell))
		}
		out = append(out, strings.Join(cells, "|"))
	}
	return out
}

func wantRows(t *testing.T, table *metav1.Table, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, rows(t, table)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPhysicalClusterIsShownWithWhatIsKnownOfIt(t *testing.T) {
	deleted := metav1.NewTime(noon)
	made := func(name string, change func(*fleetv1alpha1.PhysicalCluster)) fleetv1alpha1.PhysicalCluster {
		c := fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
		c.Spec.Connection.Type = fleetv1alpha1.ConnectionPush
		if change != nil {
			change(&c)
		}
		return c
	}
	ready := func(c *fleetv1alpha1.PhysicalCluster, status metav1.ConditionStatus, reason, message string) {
		c.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}}
	}
	list := []fleetv1alpha1.PhysicalCluster{
		made("east", func(c *fleetv1alpha1.PhysicalCluster) {
			ready(c, metav1.ConditionTrue, "Heartbeat", "well")
			c.Labels = map[string]string{"region": "eu"}
			c.Status.Version, c.Status.Nodes = "v1.37.1", 5
			c.Status.Syncer = &fleetv1alpha1.SyncerVersion{Version: "v0.1.0", Revision: 2}
			c.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20"), corev1.ResourceMemory: resource.MustParse("8Gi")}
			c.Status.Requested = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
		}),
		made("new", nil),
		made("deaf", func(c *fleetv1alpha1.PhysicalCluster) {
			ready(c, metav1.ConditionTrue, "Heartbeat", "well")
			apimeta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
				Type: fleetv1alpha1.ConditionSyncing, Status: metav1.ConditionFalse, Reason: fleetv1alpha1.ReasonForbidden, Message: "no watch of pods",
			})
		}),
		made("silent", func(c *fleetv1alpha1.PhysicalCluster) {
			ready(c, metav1.ConditionUnknown, "HeartbeatLost", "silent since 11:59")
			c.Spec.Unschedulable = true
			c.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "a", Effect: "NoSchedule"}, {Key: "old", Effect: "NoExecute"}}
		}),
		made("wrong", func(c *fleetv1alpha1.PhysicalCluster) {
			ready(c, metav1.ConditionFalse, "Unreachable", "no route")
			c.DeletionTimestamp = &deleted
		}),
	}
	wantRows(t, PhysicalClusters(list, Usages{"east": {Placements: 2, Copies: 9}}, noon),
		"east|Ready|<none>|2|9|1500m/20|0/8Gi|60m|v1.37.1|v0.1.0|5|Push|region=eu|<none>",
		"new|Unknown|<none>|0|0|<unknown>|<unknown>|60m|<unknown>|<unknown>|0|Push|<none>|<none>",
		"deaf|Ready,NotSyncing,Forbidden|<none>|0|0|<unknown>|<unknown>|60m|<unknown>|<unknown>|0|Push|<none>|no watch of pods",
		"silent|Unknown,HeartbeatLost,SchedulingDisabled|gpu=a:NoSchedule,old:NoExecute|0|0|<unknown>|<unknown>|60m|<unknown>|<unknown>|0|Push|<none>|silent since 11:59",
		"wrong|NotReady,Unreachable,Terminating|<none>|0|0|<unknown>|<unknown>|60m|<unknown>|<unknown>|0|Push|<none>|no route")
	if got := rows(t, PhysicalClusters(list[:1], nil, noon))[0]; !strings.HasPrefix(got, "east|Ready|<none>|<unknown>|<unknown>|") {
		t.Errorf("what could not be counted is shown as %s", got)
	}
}

func TestALogicalClusterIsShownWithItsOwners(t *testing.T) {
	shop := tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute))}}
	shop.Spec.Owners = []rbacv1.Subject{{Kind: "User", Name: "alice"}, {Kind: "Group", Name: "ops"}}
	shop.Status.Phase, shop.Status.URL = tenancyv1alpha1.LogicalClusterReady, "https://h/clusters/shop"
	going := tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "going", DeletionTimestamp: &metav1.Time{Time: noon}}}
	wantRows(t, LogicalClusters([]tenancyv1alpha1.LogicalCluster{shop, going}, noon),
		"shop|Ready|User:alice,Group:ops|60s|https://h/clusters/shop|<none>",
		"going|Terminating|<none>|<unknown>|<unknown>|<none>")
}

func copyOf(resource, name, target string, state placementv1alpha1.CopyState, reason string) placementv1alpha1.Copy {
	c := placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Namespace: "web"}}
	c.Spec.Object.Resource, c.Spec.Object.Name, c.Spec.Object.UID = resource, name, "uid-of-x"
	if resource == "deployments" {
		c.Spec.Object.Group = "apps"
	}
	c.Spec.PhysicalCluster = target
	c.Status.State, c.Status.Reason = state, reason
	return c
}

func TestANamespaceIsWhereItsPlacementAndCopiesSay(t *testing.T) {
	p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "namespace"}}
	p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}, {Name: "west"}}}
	p.Status.Targets = []placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: "Active"}, {PhysicalCluster: "north", Phase: "Removing", Reason: "Moved"}}
	waiting := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "namespace"}}
	waiting.Status.Conditions = []metav1.Condition{{Type: "Scheduled", Status: "False", Reason: "NoPhysicalClusterFits", Message: "east: full"}}
	w := NewWhere()
	w.AddPlacement(p)
	w.AddPlacement(waiting)
	w.AddCopies([]placementv1alpha1.Copy{
		copyOf("services", "web", "west", "Synced", ""), copyOf("deployments", "web", "west", "", ""), copyOf("deployments", "web", "east", "Failed", "NotOurs"),
	})
	wantRows(t, w.Table(),
		"web|placement/namespace|east|Active|<none>|<none>|<none>",
		"web|placement/namespace|north|Removing|Moved|<none>|<none>",
		"web|placement/namespace|west|Decided|<none>|<none>|<none>",
		"db|placement/namespace|<none>|Pending|NoPhysicalClusterFits|<none>|east: full",
		"web|deployments.apps/web|east|Failed|NotOurs|<none>|<none>",
		"web|deployments.apps/web|west|<unknown>|<none>|<none>|<none>",
		"web|services/web|west|Synced|<none>|<none>|<none>")
}

func TestAnObjectIsWhereItsTargetsSay(t *testing.T) {
	object := func(targets string) Object {
		return Object{Type: "deployments.apps", Namespace: "web", Name: "web", UID: "uid-of-x", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: targets}}
	}
	copies := []placementv1alpha1.Copy{copyOf("deployments", "web", "east", "Synced", ""), copyOf("deployments", "web", "gone", "Removing", "Waits")}
	other := copyOf("deployments", "other", "west", "Synced", "")
	other.Spec.Object.UID = "uid-of-y"
	w := NewWhere()
	w.AddObject(object(`{"east":{},"west":{}}`), append(copies, other))
	wantRows(t, w.Table(),
		"web|deployments.apps/web|east|Synced|<none>|<none>|<none>",
		"web|deployments.apps/web|west|Pending|NoCopyYet|<none>|the syncer of the physical cluster has not taken note of it",
		"web|deployments.apps/web|gone|Removing|Waits|<none>|<none>")

	front, broken := copyOf("services", "web", "west", "Synced", ""), copyOf("services", "web", "east", "Failed", "Invalid")
	front.Status.NoEndpoints, broken.Status.NoEndpoints, broken.Status.Message = []string{"db", "web"}, []string{"web"}, "a port is taken"
	w = NewWhere()
	w.AddCopies([]placementv1alpha1.Copy{front, broken})
	wantRows(t, w.Table(),
		"web|services/web|east|Failed|Invalid|<none>|a port is taken",
		"web|services/web|west|Synced|<none>|<none>|it leads to no ready pod there by db, web: clients are sent to the addresses of others that do")

	w = NewWhere()
	w.AddObject(object(`{"east":{"state":"Observed","uid":"1"}}`), nil)
	w.AddObject(object(""), nil)
	got := rows(t, w.Table())
	if !strings.HasPrefix(got[0], "web|deployments.apps/web|east|Mirrored|") || !strings.HasPrefix(got[1], "web|deployments.apps/web|<none>|NotPlaced|") {
		t.Errorf("got %q", got)
	}
}

func TestADecisionIsExplainedWithItsRejections(t *testing.T) {
	p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "namespace"}}
	p.Spec.Decision = &placementv1alpha1.Decision{
		PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}},
		Policies:         []placementv1alpha1.PolicyReference{{Level: "Namespace", Name: "own", Generation: 2}, {Level: "Global", Name: "gold", Generation: 7}},
	}
	p.Status.Targets = []placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: "Active"}}
	p.Status.Rejected = []placementv1alpha1.RejectedPhysicalCluster{{PhysicalCluster: "west", Reason: "Cordoned", Message: "is cordoned"}}
	p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionPolicySatisfied, Status: "False", Reason: "PolicyMismatch", Message: "east is not permitted"}}
	e := ExplainPlacement(p)
	if diff := cmp.Diff([]string{
		"Namespace web is placed on east.",
		"Policies: Namespace own (generation 2), Global gold (generation 7).",
		"The policies of now want something else (PolicyMismatch): east is not permitted",
	}, e.Lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantRows(t, e.Table, "east|Chosen|<none>|Active", "west|Rejected|Cordoned|is cordoned")
	p.Status.SchedulerName = "cost"
	if got := ExplainPlacement(p).Lines[2]; got != "Scheduler cost decides where it goes." {
		t.Errorf("of another scheduler it says %q", got)
	}

	for reason, want := range map[string]string{
		placementv1alpha1.ReasonWaitsToReturn: "Policies prefer west.",
		placementv1alpha1.ReasonWentBack:      "Policies prefer west.",
		"Blocked":                             "It should move and cannot (Blocked): policies prefer west",
	} {
		p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionMoving, Status: "False", Reason: reason, Message: "policies prefer west"}}
		if lines := ExplainPlacement(p).Lines; !slices.Contains(lines, want) {
			t.Errorf("%s: it says %q", reason, lines)
		}
	}

	p.Status.Conditions = nil
	p.Spec.WentBack = &placementv1alpha1.WentBack{PhysicalClusters: []string{"west"}, At: metav1.Unix(0, 0), Message: "no pods"}
	if lines, want := ExplainPlacement(p).Lines, "It went back from west at 1970-01-01T00:00:00Z, as it did not become available there: no pods"; !slices.Contains(lines, want) {
		t.Errorf("of what went back it says %q", lines)
	}
	p.Spec.WentBack = nil

	p.Spec.Decision, p.Status.Targets = nil, nil
	p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionScheduled, Status: "False", Reason: "NoPhysicalClusterFits", Message: "west: is cordoned"}}
	e = ExplainPlacement(p)
	if diff := cmp.Diff([]string{"Namespace web waits for a physical cluster: west: is cordoned"}, e.Lines); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}

	for _, s := range []placementv1alpha1.PlacementReviewStatus{{Message: "no term selects it"}, {SchedulerName: "cost", Message: "cost has not bound it"}} {
		want := "Namespace web is not placed, and could go nowhere: no term selects it"
		if s.SchedulerName != "" {
			want = "Namespace web is not placed yet: its first object that runs would wait: cost has not bound it"
		}
		if got := ExplainReview("web", s).Lines[0]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}

	e = ExplainReview("web", placementv1alpha1.PlacementReviewStatus{PhysicalClusters: []string{"west"}, Rejected: p.Status.Rejected[:0]})
	if diff := cmp.Diff([]string{
		"Namespace web is not placed yet: its first object that runs would go to west.",
		"No policy selects it.",
	}, e.Lines); diff != "" {
		t.Errorf("not placed (-want +got):\n%s", diff)
	}
	wantRows(t, e.Table, "west|WouldBeChosen|<none>|<none>")
}

func TestWhatIfComparesWhereANamespaceIsWithWhereItWouldBe(t *testing.T) {
	var outcomes []Outcome
	for _, c := range []struct {
		namespace, decided, answer string
		want                       Change
	}{
		{"a", "", "", Pending},
		{"b", "", "east", Placed},
		{"c", "east", "", Pending},
		{"d", "east,west", "west,east", Unchanged},
		{"e", "east", "west", Moves},
		{"f", "east", "east,west", Moves},
	} {
		s := placementv1alpha1.PlacementReviewStatus{Decided: split(c.decided), PhysicalClusters: split(c.answer), Message: "the sentence"}
		if c.namespace == "e" {
			s.Rejected = []placementv1alpha1.RejectedPhysicalCluster{{PhysicalCluster: "east", Message: "is cordoned"}, {PhysicalCluster: "north", Message: "is full"}}
		}
		o := Compare(Unit{LogicalCluster: "shop", Namespace: c.namespace}, s)
		if o.Change != c.want {
			t.Errorf("from %q to %q: %s, want %s", c.decided, c.answer, o.Change, c.want)
		}
		outcomes = append(outcomes, o)
	}
	wantRows(t, WhatIf(outcomes, false),
		"a|Pending|<none>|<none>|the sentence",
		"c|Pending|east|<none>|the sentence",
		"e|Moves|east|west|east: is cordoned",
		"f|Moves|east|east,west|<none>",
		"b|Placed|<none>|east|<none>",
		"d|Unchanged|east,west|east,west|<none>")
	if got := rows(t, WhatIf(outcomes[:1], true))[0]; got != "shop|a|Pending|<none>|<none>|the sentence" {
		t.Errorf("with the logical cluster: %s", got)
	}
	for n, want := range map[int]string{
		0: "0 namespaces: 0 would move, 0 would have nowhere to go, 0 stay where they are",
		1: "1 namespace: 0 would move, 1 would have nowhere to go, 0 stay where they are",
		6: "6 namespaces: 2 would move, 2 would have nowhere to go, 1 stay where they are, 1 would be placed",
	} {
		if got := Count(outcomes[:n]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWhatCannotMoveIsBlocked(t *testing.T) {
	s := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Obstacles: []string{"claim data cannot move", "another"}}
	blocked := Compare(Unit{LogicalCluster: "shop", Namespace: "db"}, s)
	s.Obstacles, s.StopsFirst = nil, []string{"StatefulSet db"}
	moves := Compare(Unit{LogicalCluster: "shop", Namespace: "db"}, s)
	wantRows(t, WhatIf([]Outcome{moves, blocked}, false),
		"db|Blocked|east|west|claim data cannot move; another",
		"db|Moves|east|west|stopped before it is started: StatefulSet db")
	if got, want := Count([]Outcome{moves, blocked}), "2 namespaces: 1 would move, 0 would have nowhere to go, 0 stay where they are, 1 would have to move and cannot"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := Stays([]Outcome{moves, blocked, {Change: Pending}, {Change: Unchanged}}); n != 2 {
		t.Errorf("%d stay, want 2", n)
	}
}

func TestTheProgressOfAMoveIsSaid(t *testing.T) {
	placed := func(on string, change func(*placementv1alpha1.Placement)) *placementv1alpha1.Placement {
		p := &placementv1alpha1.Placement{}
		p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: on}}}
		change(p)
		return p
	}
	moving := func(p *placementv1alpha1.Placement, status metav1.ConditionStatus, message string) {
		p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionMoving, Status: status, Reason: "Why", Message: message}}
	}
	for _, c := range []struct {
		p    *placementv1alpha1.Placement
		want string
		done bool
	}{
		{placed("east", func(p *placementv1alpha1.Placement) { moving(p, "False", "a claim keeps it") }), "decided for east (Why: a claim keeps it)", false},
		{placed("east", func(*placementv1alpha1.Placement) {}), "decided for east", false},
		{placed("west", func(p *placementv1alpha1.Placement) {
			p.Spec.Transition = &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionStarting, From: []string{"east"}, To: []string{"west"}}
			moving(p, "True", "waits for web")
		}), "Starting: from east to west (Why: waits for web)", false},
		{placed("west", func(*placementv1alpha1.Placement) {}), "on west", true},
	} {
		if line, done := Move(c.p, "west"); line != c.want || done != c.done {
			t.Errorf("%q %v, want %q %v", line, done, c.want, c.done)
		}
	}
	p := placed("west", func(p *placementv1alpha1.Placement) { moving(p, "True", "waits for web") })
	if e := ExplainPlacement(p); !strings.Contains(strings.Join(e.Lines, "\n"), "It moves (Why): waits for web") {
		t.Errorf("explained: %q", e.Lines)
	}
	moving(p, "False", "a claim keeps it")
	if e := ExplainPlacement(p); !strings.Contains(strings.Join(e.Lines, "\n"), "It should move and cannot (Why): a claim keeps it") {
		t.Errorf("explained: %q", e.Lines)
	}
}

func TestTheProgressOfADrainIsABar(t *testing.T) {
	for _, c := range []struct {
		began, left Usage
		about       time.Duration
		want        string
	}{
		{Usage{}, Usage{}, 0, "[####################] 0 of 0 namespaces have left, copies left: 0"},
		{Usage{4, 20}, Usage{4, 20}, 0, "[--------------------] 0 of 4 namespaces have left, copies left: 20"},
		{Usage{4, 20}, Usage{1, 9}, 90 * time.Second, "[###############-----] 3 of 4 namespaces have left, copies left: 9, about 90s to go"},
		{Usage{4, 20}, Usage{0, 2}, 0, "[####################] 4 of 4 namespaces have left, copies left: 2"},
	} {
		if got := Progress(c.began, c.left, c.about); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
