package units

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func kindOf(group, kind string) workload.Kind {
	for _, k := range workload.Builtin().All() {
		if k.GroupKind() == (schema.GroupKind{Group: group, Kind: kind}) {
			return k
		}
	}
	panic(kind)
}

// made is an object whose UID is <kind>/<name>.
func made(group, kind, name string, content map[string]any) Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range content {
		u.Object[key] = value
	}
	u.SetName(name)
	u.SetUID(types.UID(kind + "/" + name))
	return Object{kindOf(group, kind), u}
}

func labelled(o Object, pairs ...string) Object {
	labels := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	o.SetLabels(labels)
	return o
}

func owned(o Object, by string) Object {
	o.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Observed","uid":"x"}}`})
	if by != "" {
		controls := true
		o.SetOwnerReferences([]metav1.OwnerReference{{UID: types.UID(by), Controller: &controls}})
	}
	return o
}

// deployment has pods with the label app.
func deployment(name, app string) Object {
	return made("apps", "Deployment", name, map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": app}},
		"spec":     map[string]any{"volumes": []any{map[string]any{"persistentVolumeClaim": map[string]any{"claimName": app + "-data"}}}},
	}}})
}

func service(name, app string) Object {
	spec := map[string]any{}
	if app != "" {
		spec["selector"] = map[string]any{"app": app}
	}
	return made("", "Service", name, map[string]any{"spec": spec})
}

func policy(name string, o *placementv1alpha1.ObjectSelection) *placementv1alpha1.PlacementPolicy {
	p := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Objects = o
	return p
}

func byLabel(key, value string) *placementv1alpha1.ObjectSelection {
	return &placementv1alpha1.ObjectSelection{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

func TestAnObjectIsInTheUnitOfTheFirstPolicyThatSelectsIt(t *testing.T) {
	deployments := []placementv1alpha1.ObjectKind{{Group: "apps", Kind: "Deployment"}}
	selectors := Selectors([]*placementv1alpha1.PlacementPolicy{
		policy("late", byLabel("tier", "front")),
		policy("front", &placementv1alpha1.ObjectSelection{Kinds: deployments, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}),
		policy("by-name", &placementv1alpha1.ObjectSelection{Kinds: deployments, Names: []string{"api", "jobs"}}),
		policy("whole", nil),
		policy("broken", &placementv1alpha1.ObjectSelection{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}),
		policy(placementv1alpha1.NamespaceUnit, byLabel("tier", "front")),
	})
	for _, c := range []struct {
		name string
		o    Object
		unit string
		also []string
	}{
		{"no policy selects it", deployment("web", "web"), "namespace", nil},
		{"one does, by name", deployment("api", "web"), "by-name", nil},
		{"the kind is another", made("apps", "StatefulSet", "api", nil), "namespace", nil},
		{"two do", labelled(deployment("web", "web"), "tier", "front"), "front", []string{"late"}},
		{"three do", labelled(deployment("jobs", "web"), "tier", "front"), "by-name", []string{"front", "late"}},
		{"one does, by label", labelled(made("batch", "Job", "api", nil), "tier", "front"), "late", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			unit, also := Selected(selectors, c.o.Kind, c.o)
			if diff := cmp.Diff([]any{c.unit, c.also}, []any{unit, also}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatFollowsIsInAllUnitsThatNeedIt(t *testing.T) {
	selectors := Selectors([]*placementv1alpha1.PlacementPolicy{policy("two", byLabel("tier", "front"))})
	path := func(service string) map[string]any {
		return map[string]any{"backend": map[string]any{"service": map[string]any{"name": service}}}
	}
	ingress := func(name string, services ...string) Object {
		var paths []any
		for _, s := range services {
			paths = append(paths, path(s))
		}
		return made("networking.k8s.io", "Ingress", name, map[string]any{"spec": map[string]any{"rules": []any{map[string]any{"http": map[string]any{"paths": paths}}}}})
	}
	scaler := func(kind, name string) Object {
		return made("autoscaling", "HorizontalPodAutoscaler", "scaler", map[string]any{"spec": map[string]any{
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": kind, "name": name}}})
	}
	budget := func(content map[string]any) Object {
		return made("policy", "PodDisruptionBudget", "budget", map[string]any{"spec": content})
	}
	set := made("apps", "StatefulSet", "db", map[string]any{"spec": map[string]any{
		"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "data"}}}}})
	set.SetUID("StatefulSet/db")
	d := Divide(selectors, []Object{
		labelled(deployment("web", "web"), "tier", "front"), deployment("api", "api"), deployment("old", "web"), labelled(set, "tier", "front"),
		service("web", "web"), service("api", "api"), service("elsewhere", ""),
		owned(made("apps", "ReplicaSet", "api-1", nil), "Deployment/api"), owned(made("", "Pod", "api-1-x", nil), "ReplicaSet/api-1"),
	})
	both, front, rest := []string{"namespace", "two"}, []string{"two"}, []string{"namespace"}
	for _, c := range []struct {
		name string
		o    Object
		want []string
	}{
		{"a Service of pods in both", service("web", "web"), both},
		{"a Service of pods in one", service("api", "api"), rest},
		{"a Service that is selected, and whose pods are not", labelled(service("api", "api"), "tier", "front"), rest},
		{"a Service of no pods", service("lost", "nobody"), rest},
		{"a Service of no pods that is selected", labelled(service("lost", "nobody"), "tier", "front"), front},
		{"a Service without selector", service("elsewhere", ""), rest},
		{"an Ingress to both", ingress("all", "web", "api"), both},
		{"an Ingress to one", ingress("one", "api", "gone"), rest},
		{"an autoscaler", scaler("Deployment", "web"), front},
		{"an autoscaler of what is not there", scaler("Deployment", "gone"), rest},
		{"a budget", budget(map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "api"}}}), rest},
		{"a budget of all", budget(map[string]any{"selector": map[string]any{}}), both},
		{"a budget of none", budget(map[string]any{}), rest},
		{"a claim that both mount", made("", "PersistentVolumeClaim", "web-data", nil), both},
		{"a claim that nobody mounts", made("", "PersistentVolumeClaim", "spare", nil), rest},
		{"a claim that was made below", owned(made("", "PersistentVolumeClaim", "data-db-12", nil), ""), front},
		{"a claim of unknown origin", owned(made("", "PersistentVolumeClaim", "data-db-x", nil), ""), nil},
		{"a pod that was made below", owned(made("", "Pod", "api-1-x", nil), "ReplicaSet/api-1"), rest},
		{"a pod of something that is gone", owned(made("", "Pod", "gone-1", nil), "ReplicaSet/gone"), nil},
		{"endpoints of a Service of both", owned(made("discovery.k8s.io", "EndpointSlice", "web-1", nil), "Service/web"), both},
		{"a Secret", made("", "Secret", "s", nil), nil},
		{"the Namespace", made("", "Namespace", "shop", nil), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, d.Of(c.o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The reference walks all pairs of objects, without an index: what follows is where any
// object is that it needs.
func reference(policies []*placementv1alpha1.PlacementPolicy, all []Object, o Object) string {
	selected := func(o Object) string {
		best := ""
		for _, p := range policies {
			want := p.Spec.Objects.LabelSelector.MatchLabels["p"]
			if o.GetLabels()["p"] == want && (best == "" || p.Name < best) {
				best = p.Name
			}
		}
		if best == "" {
			return "namespace"
		}
		return best
	}
	if o.Kind.Kind != "Service" {
		return selected(o)
	}
	app, _, _ := unstructured.NestedString(o.Object, "spec", "selector", "app")
	found := map[string]bool{}
	for _, other := range all {
		runs, _, _ := unstructured.NestedString(other.Object, "spec", "template", "metadata", "labels", "app")
		if app != "" && runs == app {
			found[selected(other)] = true
		}
	}
	if len(found) == 0 {
		return selected(o)
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

func TestUnitsAreThoseOfTheReferenceInWhateverOrder(t *testing.T) {
	value := rapid.SampledFrom([]string{"", "a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		var policies []*placementv1alpha1.PlacementPolicy
		for _, name := range []string{"x", "y", "z"}[:rapid.IntRange(0, 3).Draw(t, "policies")] {
			policies = append(policies, policy(name, byLabel("p", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "selects"))))
		}
		var all []Object
		for i := range rapid.IntRange(1, 8).Draw(t, "objects") {
			name := string(rune('a' + i))
			o := service(name, value.Draw(t, "app"))
			if rapid.Bool().Draw(t, "runs") {
				o = deployment(name, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app"))
			}
			all = append(all, labelled(o, "p", value.Draw(t, "label")))
		}
		shuffled := rapid.Permutation(all).Draw(t, "order")
		d := Divide(Selectors(rapid.Permutation(policies).Draw(t, "order of policies")), shuffled)
		for _, o := range all {
			if got, want := strings.Join(d.Of(o), ","), reference(policies, all, o); got != want {
				t.Fatalf("%s %s is in %s, want %s", o.Kind.Kind, o.GetName(), got, want)
			}
		}
	})
}

func TestAnObjectWaitsToComeIntoAUnitThatLooksForNoReplacementsAnyMore(t *testing.T) {
	in := func(phase placementv1alpha1.TransitionPhase) *placementv1alpha1.Placement {
		p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "front"}}
		if phase != "" {
			p.Spec.Transition = &placementv1alpha1.Transition{Phase: phase}
		}
		return p
	}
	const runs = `{"east":{}}`
	for _, c := range []struct {
		name, targets, stampedBy string
		unit                     *placementv1alpha1.Placement
		units                    []string
		want                     bool
	}{
		{"the unit goes nowhere", runs, "", in(""), []string{"front"}, false},
		{"it starts", runs, "", in(placementv1alpha1.TransitionStarting), []string{"front"}, false},
		{"it drains", runs, "", in(placementv1alpha1.TransitionDraining), []string{"front"}, true},
		{"it removes", runs, "back", in(placementv1alpha1.TransitionRemoving), []string{"front"}, true},
		{"the object is in it", runs, "front", in(placementv1alpha1.TransitionRemoving), []string{"front"}, false},
		{"the object is new", "", "", in(placementv1alpha1.TransitionRemoving), []string{"front"}, false},
		{"the object is gone elsewhere already", `{"east":{"state":"Removing"}}`, "", in(placementv1alpha1.TransitionRemoving), []string{"front"}, false},
		{"it comes into another one, too", runs, "front", in(placementv1alpha1.TransitionRemoving), []string{"front", "namespace"}, false},
		{"it goes back", runs, "front", in(placementv1alpha1.TransitionRemoving), []string{"namespace"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := deployment("web", "web")
			o.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets, placementv1alpha1.UnitAnnotation: c.stampedBy})
			if got := Waits(o, c.units, c.unit); got != c.want {
				t.Errorf("waits: %v", got)
			}
		})
	}
}
