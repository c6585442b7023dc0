package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// TestALookAtAMoveAsksOnlyForWhatThereIs: a unit that moves is looked at each second, and of
// most kinds it has nothing. What is read before a phase ends is read of all kinds.
func TestALookAtAMoveAsksOnlyForWhatThereIs(t *testing.T) {
	p := placementOf("west")
	p.Spec.Transition = &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionStarting, From: []string{"east"}, To: []string{"west"}}
	d := deployment("a", `{"east":{},"west":{}}`, 0)
	f := newFixture(t, complete(), p, d)
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range f.Kinds.Current().Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	namespace := unstructuredOf(t, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: complete().ObjectMeta})
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, unstructuredOf(t, d), namespace)
	f.Dynamic = client
	f.moves.set(web, p.Spec.Transition)
	u, ok, err := f.read(t.Context(), web)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	asked := func(from string) map[string]bool {
		client.ClearActions()
		s, _, err := f.state(t.Context(), u, from)
		if err != nil || len(s.Objects) != 2 {
			t.Fatalf("%d objects, %v", len(s.Objects), err)
		}
		out := map[string]bool{}
		for _, a := range client.Actions() {
			out[a.GetResource().Resource] = true
		}
		return out
	}
	// The informers of the fixture know of four kinds only.
	from := asked(cached)
	for _, none := range []string{"services", "limitranges"} {
		if from[none] {
			t.Errorf("it asks for %s, of which there are none", none)
		}
	}
	if !from["deployments"] || !from["namespaces"] {
		t.Errorf("it asks for %v", from)
	}
	if again := asked(cached); again["deployments"] || again["namespaces"] {
		t.Errorf("nothing has changed, and it asks for %v", again)
	}
	changed := unstructuredOf(t, d)
	changed.SetResourceVersion("7")
	if err := client.Tracker().Update(deployments, changed, "web"); err != nil {
		t.Fatal(err)
	}
	if some := asked(known); !some["deployments"] || !some["services"] || !some["statefulsets"] || some["limitranges"] {
		t.Errorf("of what is known it asks for %v", some)
	}
	if all := asked(live); !all["services"] || !all["limitranges"] || !all["deployments"] {
		t.Errorf("from the database it asks for %v", all)
	}
}

// TestEndpointsAreReadAgainWhenTheyAreOthers: a unit that moves is looked at upon every event, and few of these are
// about endpoints.
func TestEndpointsAreReadAgainWhenTheyAreOthers(t *testing.T) {
	object := metav1.ObjectMeta{
		Name: "a-1", Namespace: "web", UID: "slice", ResourceVersion: "5", Labels: map[string]string{discoveryv1.LabelServiceName: "a"},
		Annotations: map[string]string{logicalcluster.AnnotationKey: "shop", placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Observed","uid":"x"}}`},
	}
	known := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, ObjectMeta: object}
	f := newFixture(t, complete(), placementOf("west"), known)
	u, ok, err := f.read(t.Context(), web)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: object, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}, {Addresses: []string{"192.0.2.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}}}
	if err := f.kube.Tracker().Add(slice); err != nil {
		t.Fatal(err)
	}
	reads := func(what, from string, ready, want int) {
		t.Helper()
		f.kube.ClearActions()
		counts, err := f.endpoints(t.Context(), u, from)
		if err != nil || counts["a"]["east"] != ready {
			t.Errorf("%s: %v %v, want %d on east", what, counts, err, ready)
		}
		if n := len(f.kube.Actions()); n != want {
			t.Errorf("%s: it was read %d times, want %d", what, n, want)
		}
	}
	reads("it does not move", cached, 1, 1)
	reads("nor now", cached, 1, 1)
	f.moves.set(web, &placementv1alpha1.Transition{})
	reads("it moves", cached, 1, 1)
	reads("nothing has changed", cached, 1, 0)
	reads("what Copies report is asked for", reported, 1, 0)
	reads("before something is taken away", live, 1, 1)

	slice, known = slice.DeepCopy(), known.DeepCopy()
	slice.Endpoints[1].Conditions.Ready, slice.ResourceVersion, known.ResourceVersion = ptr.To(true), "6", "6"
	if err := f.kube.Tracker().Update(endpointSlices, slice, "web"); err != nil {
		t.Fatal(err)
	}
	reads("the informer is behind", cached, 1, 0)
	if err := f.metadata.Tracker().Update(endpointSlices, known, "web"); err != nil {
		t.Fatal(err)
	}
	informer := f.Objects.For(endpointSlices)
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		list := informer.ListNamespace("shop", "web")
		return len(list) == 1 && list[0].ResourceVersion == "6", nil
	}); err != nil {
		t.Fatal("the informer saw no change")
	}
	reads("another endpoint is ready", cached, 2, 1)
	reads("nothing has changed since", cached, 2, 0)
}

// A pod with addresses of two families is in a slice of each, and one that goes from one slice to another in both for a moment.
func TestAPodIsCountedOnceInWhateverSlicesItIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, complete(), placementOf("west"))
	u, ok, err := f.read(t.Context(), web)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	of := func(pod, address string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	}
	for name, endpoints := range map[string][]discoveryv1.Endpoint{
		"east four": {of("a", "192.0.2.1", true), of("b", "192.0.2.2", false), {Addresses: []string{"192.0.2.3"}}},
		"east six":  {of("a", "2001:db8::1", true), of("b", "2001:db8::2", true)},
		"east late": {of("a", "192.0.2.1", true), {Addresses: []string{"192.0.2.3"}}},
		"west four": {of("a", "192.0.2.1", true)},
	} {
		target, name, _ := strings.Cut(name, " ")
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "web", Name: target + "-" + name, Labels: map[string]string{discoveryv1.LabelServiceName: "a"},
			Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"` + target + `":{"state":"Observed"}}`},
		}, Endpoints: endpoints}
		if err := f.kube.Tracker().Add(slice); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := f.endpoints(t.Context(), u, live)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[string]int{"a": {"east": 3, "west": 1}}, counts); diff != "" {
		t.Errorf("ready endpoints (-want +got):\n%s", diff)
	}
}
