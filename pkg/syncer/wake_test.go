package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// mustKind finds a kind that is built in.
func mustKind(t *testing.T, group, resource string) workload.Kind {
	t.Helper()
	kind, ok := workload.Builtin().Find(schema.GroupResource{Group: group, Resource: resource})
	if !ok {
		t.Fatalf("no kind has resource %s", resource)
	}
	return kind
}

type option func(*unstructured.Unstructured)

func targeted(targets string) option {
	return func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets})
	}
}

func generation(n int64) option { return func(u *unstructured.Unstructured) { u.SetGeneration(n) } }

func labelled(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }

func being(u *unstructured.Unstructured) { u.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0))) }

func called(name string) option {
	return func(u *unstructured.Unstructured) {
		a := u.GetAnnotations()
		a[placementv1alpha1.PhysicalNamespaceAnnotation] = name
		u.SetAnnotations(a)
	}
}

func thing(options ...option) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetName("app")
	u.SetUID("u")
	for _, o := range options {
		o(u)
	}
	return u
}

func TestWhatAChangeAboveWakes(t *testing.T) {
	here, observed := targeted(`{"east":{}}`), targeted(`{"east":{"state":"Observed","uid":"p"}}`)
	adopted := targeted(`{"east":{"state":"Observed","uid":"p","adopted":true}}`)
	deployments, namespaces := mustKind(t, "apps", "deployments"), mustKind(t, "", "namespaces")
	scalers := mustKind(t, "autoscaling", "horizontalpodautoscalers")
	object, claims := Woken{Wake: WakeObject}, Woken{Wake: WakeClaims}
	mirror, owned := Woken{Wake: WakeMirror, UID: "p"}, Woken{Wake: WakeOwned, UID: "p"}
	for name, c := range map[string]struct {
		change Change
		want   []Woken
	}{
		"an object came": {Change{Kind: deployments, New: thing(here)},
			[]Woken{object, claims, {Wake: WakeCopiesOwn}}},
		"its spec changed": {Change{Kind: deployments, Old: thing(here, generation(1)), New: thing(here, generation(2))},
			[]Woken{object, claims}},
		"its labels changed": {Change{Kind: deployments, Old: thing(here, generation(1)), New: thing(here, generation(1), labelled)},
			[]Woken{object, claims}},
		"only its status changed": {Change{Kind: deployments, Old: thing(here, generation(1)), New: thing(here, generation(1))}, nil},
		"without a generation, anything may have changed": {Change{Kind: deployments, Old: thing(here), New: thing(here)},
			[]Woken{object, claims}},
		"it is being deleted": {Change{Kind: deployments, Old: thing(here, generation(1)), New: thing(here, generation(1), being)},
			[]Woken{object, claims}},
		"it is back to life, as after a backup was restored": {Change{Kind: deployments, Old: thing(here, being), New: thing(here)},
			[]Woken{object, claims, {Wake: WakeCopiesOwn}}},
		"traffic is withdrawn from it": {Change{Kind: deployments, Old: thing(here), New: thing(targeted(`{"east":{"state":"Draining"}}`))},
			[]Woken{object, claims, {Wake: WakeCopiesOwn}}},
		"it is gone": {Change{Kind: deployments, Old: thing(here)}, []Woken{object, claims}},
		"a namespace came": {Change{Kind: namespaces, New: thing(here)},
			[]Woken{object, claims, {Wake: WakeCopiesOwn}, {Wake: WakeContents}}},
		"a namespace got its name": {Change{Kind: namespaces, Old: thing(here), New: thing(here, called("n"))},
			[]Woken{object, claims, {Wake: WakeContents}}},
		"a namespace has another name, as after a backup was restored": {Change{Kind: namespaces, Old: thing(here, called("m")), New: thing(here, called("n"))},
			[]Woken{object, claims, {Wake: WakeContents}}},
		"a namespace that has its name got a label": {Change{Kind: namespaces, Old: thing(here, called("n")), New: thing(here, called("n"), labelled)},
			[]Woken{object, claims}},
		"a namespace is gone": {Change{Kind: namespaces, Old: thing(here, called("n"))}, []Woken{object, claims}},
		"an autoscaler changed": {Change{Kind: scalers, Old: thing(here), New: thing(here, labelled)},
			[]Woken{object, claims, {Wake: WakeScaled}}},
		"a mirror came":                     {Change{Kind: deployments, New: thing(observed)}, []Woken{mirror, owned}},
		"a mirror changed":                  {Change{Kind: deployments, Old: thing(observed), New: thing(observed, labelled)}, []Woken{mirror}},
		"an own update of a mirror is back": {Change{Kind: deployments, Old: thing(observed), New: thing(observed, labelled), Own: true}, nil},
		"an own mirror is back":             {Change{Kind: deployments, New: thing(observed), Own: true}, []Woken{mirror, owned}},
		"a mirror is gone":                  {Change{Kind: deployments, Old: thing(observed)}, []Woken{mirror, owned}},
		"what had a copy and was adopted":   {Change{Kind: deployments, Old: thing(here), New: thing(adopted)}, []Woken{object, claims, mirror}},
		"an own update that mirrors another": {Change{Kind: deployments, Old: thing(targeted(`{"east":{"state":"Observed","uid":"q"}}`)), New: thing(observed), Own: true},
			[]Woken{{Wake: WakeMirror, UID: "q"}}},
		"it mirrors something of another target": {Change{Kind: deployments, Old: thing(targeted(`{"west":{"state":"Observed","uid":"p"}}`))},
			[]Woken{object, claims}},
	} {
		c.change.Target, c.change.Placed = "east", true
		if diff := cmp.Diff(c.want, WakeAbove(c.change)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if got := WakeAbove(Change{Target: "east", Kind: mustKind(t, "apps", "controllerrevisions"), Observed: true, New: thing(here)}); got != nil {
		t.Errorf("an object of a kind that has no copies wakes %v", got)
	}
}

func TestWhatAChangeBelowWakes(t *testing.T) {
	pods, configs := mustKind(t, "", "pods"), mustKind(t, "", "configmaps")
	namespaces, policies := mustKind(t, "", "namespaces"), mustKind(t, "networking.k8s.io", "networkpolicies")
	mark := Mark{ControlPlane: "cp", Cluster: "shop", Namespace: "web", Name: "app", UID: "l"}
	other := mark
	other.Namespace = "other"
	again := mark
	again.UID = "m"
	ofNamespace := mark
	ofNamespace.Name = "web"
	carries := func(kind workload.Kind, m Mark) option {
		return func(u *unstructured.Unstructured) {
			labels, annotations := map[string]any{}, map[string]any{}
			m.put(kind.GroupResource(), labels, annotations)
			for name, values := range map[string]map[string]any{"labels": labels, "annotations": annotations} {
				if err := unstructured.SetNestedMap(u.Object, values, "metadata", name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	ingresses, host := mustKind(t, "networking.k8s.io", "ingresses"), func(name string) Woken { return Woken{Wake: WakeHost, Host: name} }
	hosting := func(hosts ...string) *unstructured.Unstructured {
		u := thing()
		var rules []any
		for _, h := range hosts {
			rules = append(rules, map[string]any{"host": h})
		}
		u.Object["spec"] = map[string]any{"rules": rules}
		return u
	}
	services := mustKind(t, "", "services")
	selecting := func(selector string) *unstructured.Unstructured {
		return parse(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, uid: u}\nspec: {selector: {"+selector+"}}")
	}
	leading := func(service string) *unstructured.Unstructured {
		u := thing(carries(ingresses, mark))
		u.Object["spec"] = parse(t, "apiVersion: v1\nkind: Any\nspec: {rules: [{host: a, http: {paths: [{backend: {service: {name: "+service+"}}}]}}]}").Object["spec"]
		return u
	}
	gone := func(u *unstructured.Unstructured) *unstructured.Unstructured { being(u); return u }
	object := func(m Mark) Woken { return Woken{Wake: WakeObject, Mark: m} }
	endpointSlices, mirrorOf := mustKind(t, "discovery.k8s.io", "endpointslices"), func(uid types.UID) Woken { return Woken{Wake: WakeMirror, UID: uid} }
	orphans, mirror, owned := Woken{Wake: WakeOrphans, UID: "u"}, Woken{Wake: WakeMirror, UID: "u"}, Woken{Wake: WakeOwned, UID: "u"}
	for name, c := range map[string]struct {
		change Change
		isCopy bool
		want   []Woken
	}{
		"a copy came":                  {Change{Kind: configs, New: thing(carries(configs, mark))}, true, []Woken{object(mark), orphans, owned}},
		"an own copy is back":          {Change{Kind: configs, New: thing(carries(configs, mark)), Own: true}, true, []Woken{owned}},
		"a copy changed":               {Change{Kind: configs, Old: thing(carries(configs, mark)), New: thing(carries(configs, mark), labelled)}, true, nil},
		"an own change is back":        {Change{Kind: configs, Old: thing(carries(configs, mark)), New: thing(carries(configs, mark)), Own: true}, true, nil},
		"a copy is gone":               {Change{Kind: configs, Old: thing(carries(configs, mark))}, true, []Woken{object(mark), orphans}},
		"its mark was taken off":       {Change{Kind: configs, Old: thing(carries(configs, mark)), New: thing()}, false, []Woken{object(mark), orphans}},
		"its mark became another":      {Change{Kind: configs, Old: thing(carries(configs, mark)), New: thing(carries(configs, other))}, true, []Woken{object(other), object(mark), orphans, owned}},
		"an own write adopted it":      {Change{Kind: configs, Old: thing(), New: thing(carries(configs, mark)), Own: true}, true, []Woken{owned}},
		"and for one made again":       {Change{Kind: configs, Old: thing(carries(configs, mark)), New: thing(carries(configs, again)), Own: true}, true, []Woken{owned}},
		"a policy of ours is gone":     {Change{Kind: policies, Old: thing()}, false, []Woken{{Wake: WakeIsolation}}},
		"a policy of ours was changed": {Change{Kind: policies, Old: thing(), New: thing(labelled)}, false, []Woken{{Wake: WakeIsolation}}},
		"a namespace came":             {Change{Kind: namespaces, New: thing()}, true, []Woken{owned, {Wake: WakeIsolation}}},
		"a namespace of ours is gone": {Change{Kind: namespaces, Placed: true, Old: thing(carries(namespaces, ofNamespace))}, true,
			[]Woken{object(ofNamespace), orphans, {Wake: WakeIsolation}, {Wake: WakeContents, Mark: ofNamespace}}},
		"an Ingress is gone":               {Change{Kind: ingresses, Old: hosting("a", "b")}, true, []Woken{host("a"), host("b")}},
		"an Ingress is about to go":        {Change{Kind: ingresses, Old: hosting("a"), New: gone(hosting("a"))}, true, []Woken{host("a")}},
		"an Ingress that was has gone":     {Change{Kind: ingresses, Old: gone(hosting("a"))}, true, nil},
		"an Ingress has another name":      {Change{Kind: ingresses, Old: hosting("a", "b"), New: hosting("b", "c"), Own: true}, true, []Woken{host("a")}},
		"an Ingress came":                  {Change{Kind: ingresses, New: hosting("a")}, true, []Woken{owned}},
		"endpoints are ready":              {Change{Kind: endpointSlices, Observed: true, Old: sliceOf(t, "ready: false"), New: sliceOf(t, "ready: true")}, false, []Woken{mirrorOf("s"), {Wake: WakeService, Service: "web"}}},
		"more endpoints are ready":         {Change{Kind: endpointSlices, Observed: true, Old: sliceOf(t, "ready: true"), New: sliceOf(t, "ready: true", "ready: true")}, false, []Woken{mirrorOf("s")}},
		"endpoints are gone":               {Change{Kind: endpointSlices, Observed: true, Old: sliceOf(t, "ready: true")}, false, []Woken{mirrorOf("s"), {Wake: WakeService, Service: "web"}}},
		"a Service came":                   {Change{Kind: services, New: selecting("app: web")}, true, []Woken{owned, {Wake: WakeService, Service: "web"}}},
		"a Service selects no pods by now": {Change{Kind: services, Own: true, Old: selecting("app: web"), New: selecting("")}, true, []Woken{{Wake: WakeService, Service: "web"}}},
		"a Service selects other pods":     {Change{Kind: services, Own: true, Old: selecting("app: web"), New: selecting("app: db")}, true, nil},
		"a Service is gone":                {Change{Kind: services, Old: selecting("app: web")}, true, []Woken{{Wake: WakeService, Service: "web"}}},
		"an own Ingress leads to others":   {Change{Kind: ingresses, Own: true, Old: leading("a"), New: leading("b")}, true, []Woken{object(mark)}},
		"an own Ingress came":              {Change{Kind: ingresses, Own: true, New: leading("a")}, true, []Woken{owned, object(mark)}},
		"an own Ingress leads as before":   {Change{Kind: ingresses, Own: true, Old: leading("a"), New: leading("a")}, true, nil},
		"a namespace changed":              {Change{Kind: namespaces, Old: thing(), New: thing(labelled)}, true, nil},
		"a pod of a controller came":       {Change{Kind: pods, Observed: true, New: thing()}, false, []Woken{mirror, owned}},
		"a pod of a controller changed":    {Change{Kind: pods, Observed: true, Old: thing(), New: thing(labelled)}, false, []Woken{mirror}},
		"a pod of a controller is gone":    {Change{Kind: pods, Observed: true, Old: thing()}, false, []Woken{mirror}},
		"a pod of a user came":             {Change{Kind: pods, Observed: true, New: thing(carries(pods, mark))}, true, []Woken{object(mark), orphans, owned}},
		"a pod that a controller adopted":  {Change{Kind: pods, Observed: true, Old: thing(carries(pods, mark)), New: thing(carries(pods, mark))}, false, []Woken{object(mark), orphans, mirror}},
	} {
		if name == "a copy changed" { // labels are where the mark is: one of another, beside it
			c.change.New = c.change.Old.DeepCopy()
			c.change.New.SetGeneration(7)
			c.want = []Woken{object(mark), orphans}
		}
		c.change.Target, c.change.Placed = "east", true
		if diff := cmp.Diff(c.want, WakeBelow(c.change, func(*unstructured.Unstructured) bool { return c.isCopy })); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestWhatAChangeOfACopyWakes(t *testing.T) {
	in := func(s placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		return &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: s}}
	}
	const pending, synced, removed = placementv1alpha1.CopyPending, placementv1alpha1.CopySynced, placementv1alpha1.CopyRemoved
	claims, object, namespace := Woken{Wake: WakeClaims}, Woken{Wake: WakeObject}, Woken{Wake: WakeNamespace}
	for name, c := range map[string]struct {
		change CopyChange
		want   []Woken
	}{
		"its own record is back":             {CopyChange{New: in(pending), Own: true}, []Woken{claims}},
		"its own news is back":               {CopyChange{Old: in(pending), New: in(synced), Own: true}, []Woken{claims}},
		"a new one that says more, also own": {CopyChange{New: in(synced), Own: true}, []Woken{claims, object}},
		"one of a predecessor":               {CopyChange{New: in(pending)}, []Woken{claims, object}},
		"another one wrote it":               {CopyChange{Old: in(pending), New: in(synced)}, []Woken{claims, object}},
		"it is acknowledged":                 {CopyChange{Old: in(synced), New: in(removed), Own: true}, []Woken{claims, namespace}},
		"it is gone":                         {CopyChange{Old: in(removed)}, []Woken{claims, {Wake: WakeMarked}, object, namespace}},
	} {
		if diff := cmp.Diff(c.want, WakeCopy(c.change)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestWhatCarriesAMarkIsACopyUnlessItIsMirroredOrForgotten(t *testing.T) {
	mark := Mark{UID: "l"}
	with := func(uid types.UID, targets string) *unstructured.Unstructured {
		u := thing(targeted(targets))
		u.SetUID(uid)
		return u
	}
	for name, c := range map[string]struct {
		marked Marked
		want   bool
	}{
		"it is mirrored":                     {Marked{Mirrored: true, Recorded: true, Logical: with("l", `{"east":{}}`)}, false},
		"it has a Copy":                      {Marked{Recorded: true}, true},
		"its Copy is about to come":          {Marked{Logical: with("l", `{"east":{}}`)}, true},
		"a controller adopted it":            {Marked{Logical: with("l", `{"east":{"state":"Observed","uid":"p"}}`)}, false},
		"the object was made again":          {Marked{Logical: with("m", `{"east":{}}`)}, false},
		"nothing above knows of it any more": {Marked{}, false},
		"nothing above knows of the claim":   {Marked{Claim: true}, true},
		"the claim was made again":           {Marked{Claim: true, Logical: with("m", `{"east":{}}`)}, true},
		"the claim is mirrored":              {Marked{Claim: true, Mirrored: true}, false},
	} {
		c.marked.Mark, c.marked.Target = mark, "east"
		if got := IsCopy(c.marked); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAnAutoscalerNamesWhatItScales(t *testing.T) {
	scalers := mustKind(t, "autoscaling", "horizontalpodautoscalers")
	scaler := thing()
	scaler.Object["spec"] = map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"}}
	if kind, name := Scales(scalers, scaler); kind != (schema.GroupKind{Group: "apps", Kind: "Deployment"}) || name != "app" {
		t.Errorf("%s %s", kind, name)
	}
	for what, ref := range map[string]any{"none": nil, "no map": "x", "a version that is none": map[string]any{"apiVersion": "a/b/c", "kind": "Deployment"}} {
		scaler.Object["spec"] = map[string]any{"scaleTargetRef": ref}
		if kind, name := Scales(scalers, scaler); kind.Kind != "" || name != "" {
			t.Errorf("%s: %s %s", what, kind, name)
		}
	}
}

func TestAPodWaitsForItsNodeForAMomentBeforeItIsMirrored(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := func(age time.Duration, content map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion("v1")
		u.SetKind("Pod")
		u.SetCreationTimestamp(metav1.NewTime(now.Add(-age)))
		return u
	}
	scheduled := map[string]any{"conditions": []any{map[string]any{"type": "PodScheduled", "status": "False"}}}
	job := pod(0, map[string]any{})
	job.SetAPIVersion("batch/v1")
	job.SetKind("Job")
	for name, c := range map[string]struct {
		obj  *unstructured.Unstructured
		want time.Duration
	}{
		"new":                                {pod(0, map[string]any{}), bindingTimeout},
		"a moment old":                       {pod(time.Second, map[string]any{}), bindingTimeout - time.Second},
		"old":                                {pod(time.Minute, map[string]any{}), 0},
		"with a node":                        {pod(0, map[string]any{"spec": map[string]any{"nodeName": "n"}}), 0},
		"the scheduler says why it has none": {pod(0, map[string]any{"status": scheduled}), 0},
		"no pod":                             {job, 0},
	} {
		if got := BindingDelay(kindOf(t, c.obj), c.obj, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
