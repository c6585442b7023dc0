package stamp

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func parse(t *testing.T, values ...string) []placementv1alpha1.Targets {
	t.Helper()
	var out []placementv1alpha1.Targets
	for _, v := range values {
		targets, err := ParseTargets(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, targets)
	}
	return out
}

func kindOf(group, kind string) workload.Kind {
	k, ok := workload.Builtin().ByKind(schema.GroupKind{Group: group, Kind: kind})
	if !ok {
		panic(kind)
	}
	return k
}

// unitFrom is a unit that stays where the targets keep a copy, and leaves the others.
func unitFrom(targets placementv1alpha1.Targets) Unit {
	if targets == nil {
		return nil
	}
	unit := Unit{}
	for name, target := range targets {
		unit[name] = PartStays
		if target.State == placementv1alpha1.TargetStateRemoving {
			unit[name] = PartRemoves
		}
	}
	return unit
}

// object has the targets of an annotation.
func object(targets string) *metav1.ObjectMeta {
	o := &metav1.ObjectMeta{Namespace: "web", Name: "x"}
	if targets != "" {
		o.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: targets}
	}
	return o
}

func TestAnObjectFollowsTheDecisionForItsUnit(t *testing.T) {
	for _, c := range []struct{ name, current, unit, want string }{
		{"new", "", `{"east":{}}`, `{"east":{}}`},
		{"undecided", "", "", ""},
		{"undecided again: what is there stays", `{"east":{}}`, "", `{"east":{}}`},
		{"another target", `{"east":{}}`, `{"east":{},"west":{}}`, `{"east":{},"west":{}}`},
		{"a target that the decision does not mention stays", `{"east":{}}`, `{"west":{}}`, `{"east":{},"west":{}}`},
		{"a target is removed", `{"east":{},"west":{}}`, `{"east":{"state":"Removing"},"west":{}}`, `{"east":{"state":"Removing"},"west":{}}`},
		{"what never was on a target is not removed from it", "", `{"east":{"state":"Removing"},"west":{}}`, `{"west":{}}`},
		{"a removal is finished first", `{"east":{"state":"Removing"}}`, `{"east":{}}`, `{"east":{"state":"Removing"}}`},
		{"mirrored objects are on their physical cluster only", `{"east":{"state":"Observed","uid":"1"}}`, `{"east":{},"west":{}}`, `{"east":{"state":"Observed","uid":"1"}}`},
		{"a broken annotation is stamped anew", `x`, `{"east":{}}`, `{"east":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, kind := range []workload.Kind{kindOf("apps", "Deployment"), kindOf("", "Namespace")} {
				if c.name == "a removal is finished first" && kind.Role == workload.Container {
					c.want = `{"east":{}}` // what is in it may have come back before it
				}
				got := Targets(kind, "shop", object(c.current), Source{Unit: unitFrom(parse(t, c.unit)[0])}).String()
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind.Kind, diff)
				}
			}
		})
	}
}

func TestWhatIsBeingDeletedKeepsItsTargets(t *testing.T) {
	o := object(`{"east":{}}`)
	o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	unit := Unit{"east": PartRemoves, "west": PartStays}
	for _, kind := range workload.Builtin().Kinds() {
		if got := Targets(kind, "shop", o, Source{Unit: unit}).String(); got != `{"east":{}}` {
			t.Errorf("%s: %s", kind.Kind, got)
		}
	}
}

func TestTargetsAreThoseOfTheReferrers(t *testing.T) {
	const removing = `{"east":{"state":"Removing"}}`
	for _, c := range []struct {
		name      string
		current   string
		referrers []string
		want      string
	}{
		{"nothing refers to it", "", nil, ""},
		{"one refers to it", "", []string{`{"east":{}}`}, `{"east":{}}`},
		{"several refer to it", "", []string{`{"east":{}}`, `{"west":{"replicas":2}}`}, `{"east":{},"west":{}}`},
		{"as before", `{"east":{}}`, []string{`{"east":{}}`}, `{"east":{}}`},
		{"the last one left", `{"east":{},"west":{}}`, []string{`{"west":{}}`}, `{"east":{"state":"Removing"},"west":{}}`},
		{"the referrer is being removed: it goes later", `{"east":{}}`, []string{removing}, `{"east":{}}`},
		{"a referrer that is being removed needs nothing new", "", []string{removing}, ""},
		{"one is removed, another stays", "", []string{removing, `{"east":{}}`}, `{"east":{}}`},
		{"wanted again during the removal", removing, []string{`{"east":{}}`}, removing},
		{"what a controller below adopted keeps what it has", `{"east":{}}`, []string{`{"east":{"state":"Observed","uid":"1","adopted":true}}`}, `{"east":{}}`},
		{"and needs nothing new", "", []string{`{"east":{"state":"Observed","uid":"1","adopted":true}}`}, ""},
		{"observed objects below need nothing from here", "", []string{`{"east":{"state":"Observed","uid":"1"}}`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			secret := object(c.current)
			got := Targets(kindOf("", "Secret"), "shop", secret, Source{Referrers: parse(t, c.referrers...)}).String()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatRulesANamespaceFollowsIt(t *testing.T) {
	for _, c := range []struct {
		name, kind, current, namespace, want string
	}{
		{"a limit", "LimitRange", "", `{"east":{},"west":{}}`, `{"east":{},"west":{}}`},
		{"a quota", "ResourceQuota", "", `{"east":{}}`, `{"east":{}}`},
		{"a quota that would have to be divided", "ResourceQuota", "", `{"east":{},"west":{}}`, ""},
		{"a quota that has to be divided from now on", "ResourceQuota", `{"east":{}}`, `{"east":{},"west":{}}`, `{"east":{"state":"Removing"}}`},
		{"a limit of a namespace that is not placed", "LimitRange", "", "", ""},
		{"a limit goes with the namespace", "LimitRange", `{"east":{}}`, `{"east":{"state":"Removing"}}`, `{"east":{"state":"Removing"}}`},
		{"a quota moves with the namespace", "ResourceQuota", "", `{"east":{"state":"Removing"},"west":{}}`, `{"west":{}}`},
		{"a limit that was stamped before its namespace", "LimitRange", `{"east":{}}`, "", `{"east":{}}`},
		{"a quota that was stamped before its namespace", "ResourceQuota", `{"east":{}}`, "", `{"east":{}}`},
		{"a limit with a target that the namespace gets next", "LimitRange", `{"east":{},"west":{}}`, `{"east":{}}`, `{"east":{},"west":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Targets(kindOf("", c.kind), "shop", object(c.current), Source{Unit: unitFrom(parse(t, c.namespace)[0])}).String()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatMeansSomethingInItsOwnClusterOnlyStaysUp(t *testing.T) {
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	token := named("web", "token")
	token.Annotations = map[string]string{"kubernetes.io/service-account.name": "robot"}
	for _, c := range []struct {
		kind    workload.Kind
		cluster logicalcluster.Name
		obj     metav1.ObjectMeta
		want    bool
	}{
		{kindOf("apps", "Deployment"), "shop", named("web", "app"), true},
		{kindOf("apps", "Deployment"), "shop", named("kube-system", "app"), true},
		{kindOf("apps", "Deployment"), "root", named("web", "app"), false},
		{kindOf("", "Namespace"), "shop", named("", "web"), true},
		{kindOf("", "Namespace"), "root", named("", "web"), true},
		{kindOf("", "ConfigMap"), "root", named("web", "app"), false},
		{kindOf("fleet.atoll.dev", "Manifest"), "root", named("web", "crd"), true},
		{kindOf("fleet.atoll.dev", "Manifest"), "shop", named("web", "crd"), false},
		{kindOf("", "Service"), "shop", named("default", "kubernetes"), false},
		{kindOf("", "Service"), "shop", named("web", "kubernetes"), true},
		{kindOf("apps", "Deployment"), "shop", named("default", "kubernetes"), true},
		{kindOf("", "ConfigMap"), "shop", named("web", "kube-root-ca.crt"), false},
		{kindOf("", "ConfigMap"), "shop", named("web", "app"), true},
		{kindOf("", "Secret"), "shop", named("web", "kube-root-ca.crt"), true},
		{kindOf("", "Secret"), "shop", token, true}, // of the logical cluster, for the pod that names it
	} {
		if got := GoesDown(c.kind, c.cluster, &c.obj); got != c.want {
			t.Errorf("GoesDown(%s, %s, %s/%s) = %v", c.kind.Kind, c.cluster, c.obj.Namespace, c.obj.Name, got)
		}
	}
}

func TestAnAccountIsShownWhereSomethingThatUsesItIsOrStillEnds(t *testing.T) {
	users := Users(parse(t, `{"east":{},"west":{"state":"Removing"}}`, `{"north":{"state":"Observed","uid":"u"},"south":{"state":"Waiting"}}`)...)
	if got := users.String(); got != `{"east":{},"south":{},"west":{}}` {
		t.Errorf("shown on %s", got)
	}
	if got := Users(parse(t, `{"north":{"state":"Observed","uid":"u"},"south":{"state":"Finished"}}`)...); got != nil {
		t.Errorf("shown on %s", got)
	}
}

// Whatever is wanted: asked again about the answer, the answer is the same; no entry
// is lost; a removal never turns back.
func TestAStampIsIdempotentAndLosesNothing(t *testing.T) {
	targets := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}),
		rapid.Custom(func(t *rapid.T) placementv1alpha1.Target {
			return placementv1alpha1.Target{State: rapid.SampledFrom([]placementv1alpha1.TargetState{
				placementv1alpha1.TargetSync, placementv1alpha1.TargetSync, placementv1alpha1.TargetStateRemoving, placementv1alpha1.TargetObserved,
				placementv1alpha1.TargetStateStarting, placementv1alpha1.TargetStateDraining, placementv1alpha1.TargetStateWaiting, placementv1alpha1.TargetStateFinished,
			}).Draw(t, "state")}
		}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(workload.Builtin().Kinds()).Draw(t, "kind")
		current := placementv1alpha1.Targets(targets.Draw(t, "current"))
		from := Source{
			Unit: rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}),
				rapid.SampledFrom([]Part{PartStays, PartArrives, PartLeaves, PartDrains, PartRemoves, PartHandsOver, PartClears}), 0, 3).Draw(t, "unit"),
			Mounts: rapid.Bool().Draw(t, "mounts"),
			Runs:   rapid.SampledFrom([]workload.Runs{workload.RunsAnywhere, workload.RunsOnce, workload.RunsToEnd, workload.RunsEnded}).Draw(t, "runs"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "referrers") {
			from.Referrers = append(from.Referrers, targets.Draw(t, "referrer"))
		}
		once := Targets(kind, "shop", object(current.String()), from)
		for name, target := range current {
			now, ok := once[name]
			waits := target.State == placementv1alpha1.TargetStateWaiting || target.State == placementv1alpha1.TargetStateFinished
			back := kind.Role == workload.Container && target.State == placementv1alpha1.TargetStateRemoving && now.Keeps()
			_, decided := from.Unit[name] // the claims of what is left become copies
			left := kind.IsClaim() && decided && from.Unit[name].Left() && target.State == placementv1alpha1.TargetObserved
			if !ok && !waits || ok && !waits && !back && !left && !target.Keeps() && now.State != target.State {
				t.Fatalf("%s: %s became %s", name, current, once)
			}
		}
		if twice := Targets(kind, "shop", object(once.String()), from); !Equal(once, twice) {
			t.Fatalf("%s, and again %s", once, twice)
		}
	})
}
