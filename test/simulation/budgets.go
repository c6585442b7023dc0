package simulation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

var budgets = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}

// scaled are the resources whose pods budgets may be about.
var scaled = []schema.GroupResource{deployments, statefulSets, replicaSets}

// PermitsNoMore: a disruption budget permits no more on all physical clusters than it would on one.
const PermitsNoMore = "a budget permits no more than was written"

// budget: a user says how many pods of a Deployment may be disrupted, or how many may not, another number, or nothing more.
func (w *World) budget(h Happening) {
	h.Resource = budgets
	w.writeSpec(h, map[string]any{
		[]string{"minAvailable", "maxUnavailable"}[h.N%2]: int64(h.N % 5),
		"selector": map[string]any{"matchLabels": map[string]any{"app": h.Name}},
	})
	if h.Resource = deployments; w.api.Find(h.key()) == nil {
		w.create(h.key(), example(deployments, h.Namespace, h.Name, 1+h.N%2), nil)
	}
}

// budgetsOf has budgets looked at when the pods change that these are about.
func (p *physical) budgetsOf(e kube.Event) {
	if !p.world.budgets || e.Key.Resource != pods && !slices.Contains(scaled, e.Key.Resource) {
		return
	}
	for _, obj := range p.api.ListNamespace(budgets, "", e.Key.Namespace) {
		p.work.add(p.api.KeyOf(budgets, obj))
	}
}

// disruptions is the controller of disruption budgets.
func (p *physical) disruptions(key kube.Key, budget *unstructured.Unstructured) error {
	var expected, healthy int64
	for _, gr := range scaled {
		for _, obj := range p.api.ListNamespace(gr, "", key.Namespace) {
			if protects(budget, obj) && metav1.GetControllerOfNoCopy(obj) == nil {
				expected += number(obj, "spec", "replicas")
			}
		}
	}
	app := text(budget, "spec", "selector", "matchLabels", "app")
	for _, obj := range p.api.ListNamespace(pods, "", key.Namespace) {
		if pod := cast(obj); active(pod) && pod.GetLabels()["app"] == app && text(pod, "status", "phase") == "Running" {
			healthy++
		}
	}
	desired := desiredBy(budget, expected)
	return p.status(key, budget, map[string]any{
		"observedGeneration": budget.GetGeneration(), "expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": desired,
		"disruptionsAllowed": max(0, healthy-desired),
	})
}

// protects says that a budget is about the pods of something.
func protects(budget, obj kube.Object) bool {
	return labelsOf(part(obj, "spec", "template"))["app"] == text(budget, "spec", "selector", "matchLabels", "app")
}

// desiredBy is how many of so many pods a budget wants healthy.
func desiredBy(budget *unstructured.Unstructured, expected int64) int64 {
	if _, ok := part(budget, "spec")["maxUnavailable"]; ok {
		return max(0, expected-number(budget, "spec", "maxUnavailable"))
	}
	return number(budget, "spec", "minAvailable")
}

// permits checks the parts of what may be disrupted: at no moment these are more in sum than was written.
func (l *ledger) permits(e kube.Event) {
	most, ok := part(e.New, "spec")["maxUnavailable"].(int64)
	if e.Key.Resource != budgets || !ok || e.Old == nil || targetsText(e.Old) == targetsText(e.New) || l.turnedBack > 0 || l.world.withdraws {
		return
	}
	sum, left := int64(0), map[string]bool{}
	for _, unit := range l.world.placementsOf(e.Key, cast(e.New), l.world.api.Find(namespaceOf(e.Key))) {
		if t := unit.Spec.Transition; t != nil {
			for _, name := range t.From {
				left[name] = true
			}
		}
	}
	for name, t := range targetsOf(e.New) {
		switch {
		case !t.Keeps(), left[name]: // others run as many pods, of which as many may be disrupted
		case t.Replicas == nil:
			return // each place has all of what is not divided
		default:
			sum += int64(*t.Replicas)
		}
	}
	if sum > most {
		l.world.fail(PermitsNoMore, "%s permits %d, and %d in its parts: %s", e.Key, most, sum, targetsText(e.New))
	}
}

// budgetConverged: in parts a budget permits as much as it would where all the pods are, or less.
func (w *World) budgetConverged(key kube.Key, obj *unstructured.Unstructured) {
	if key.Resource != budgets || !isDivided(targetsOf(obj)) || len(w.api.ListNamespace(autoscalers, key.Cluster, key.Namespace)) > 0 {
		return // or parts are about what autoscalers may have, not about what they have
	}
	moves := func(unit *placementv1alpha1.Placement) bool { return unit.Spec.Transition != nil }
	if slices.ContainsFunc(w.placementsOf(key, obj, w.api.Find(namespaceOf(key))), moves) {
		return // what it leaves is doubled elsewhere
	}
	var permitted, expected int64
	below := w.physicalNamespace(Happening{Cluster: key.Cluster, Namespace: key.Namespace})
	for name, target := range targetsOf(obj) {
		copied := w.cluster(name).api.Find(kube.Key{Resource: key.Resource, Namespace: below, Name: key.Name})
		if copied == nil || target.State != placementv1alpha1.TargetSync || w.cluster(name).dead || w.cluster(name).forgotten() {
			return
		}
		expected += number(copied, "status", "expectedPods")
		permitted += max(0, number(copied, "status", "expectedPods")-number(copied, "status", "desiredHealthy"))
	}
	if most := max(0, expected-desiredBy(obj, expected)); permitted > most {
		w.fail(PermitsNoMore, "%s permits %d of %d pods to be disrupted, and %d in its parts %s", key, most, expected, permitted, targetsText(obj))
	}
}
