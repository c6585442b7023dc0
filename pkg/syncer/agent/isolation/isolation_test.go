package isolation

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

var space = syncer.Space{Cluster: viewtest.Cluster, Namespace: "web", Physical: viewtest.PhysicalSpace}

func known() boundary.Permits {
	var p boundary.Permits
	p.Network.PodCIDRs = []string{"10.244.0.0/16"}
	return p
}

// fixture is a Keeper over a physical cluster in memory.
type fixture struct {
	*viewtest.World
	*Keeper
	permits  boundary.Permits
	lacking  syncer.Lacking
	now      time.Time
	enqueued []string
}

func newFixture(t *testing.T, below ...runtime.Object) *fixture {
	t.Helper()
	f := prepare(t, below...)
	f.Watch(t)
	return f
}

// prepare is a fixture whose view is not filled yet.
func prepare(t *testing.T, below ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{World: viewtest.New(t, nil, append(below, viewtest.CopyOf(viewtest.Namespace(), "below-n"))), permits: known(), now: time.Now()}
	f.World.Below.PrependReactor("create", policies.Resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		created := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
		created.SetUID(types.UID("uid-of-" + created.GetName())) // as a server does
		return false, nil, nil
	})
	f.Keeper = New(Config{
		View: f.World.View, Down: f.World.Down(), Permits: func() boundary.Permits { return f.permits },
		Lacking: func(l syncer.Lacking) { f.lacking = l }, Enqueue: func(name string) { f.enqueued = append(f.enqueued, name) }, Now: func() time.Time { return f.now },
	})
	return f
}

// policy is one of a user that selects pods of an app.
func policy(name, app string) *unstructured.Unstructured {
	p := viewtest.Logical("NetworkPolicy", "web", name, "uid-of-it", `{"east":{}}`)
	p.Object["spec"] = map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": app}}, "policyTypes": []any{"Ingress"}}
	return viewtest.CopyOf(p, "below-of-it")
}

// ours are the selectors of the policies that were made.
func (f *fixture) ours(t *testing.T) (selectors []string) {
	t.Helper()
	list, err := f.World.Below.Resource(policies).Namespace(viewtest.PhysicalSpace).List(f.Ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "the view has them all", func() bool { return len(f.PhysicalIn(policies, viewtest.PhysicalSpace)) == len(list.Items) })
	for i := range list.Items {
		if syncer.IsIsolating(viewtest.ControlPlane, &list.Items[i]) {
			selector, _, _ := unstructured.NestedMap(list.Items[i].Object, "spec", "podSelector")
			text, err := (&unstructured.Unstructured{Object: map[string]any{"kind": "S", "apiVersion": "v1", "s": selector}}).MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			selectors = append(selectors, string(text[len(`{"apiVersion":"v1","kind":"S","s":`):len(text)-2]))
		}
	}
	return selectors
}

func (f *fixture) reconcile(t *testing.T) {
	t.Helper()
	if _, err := f.Reconcile(f.Ctx, viewtest.PhysicalSpace); err != nil {
		t.Fatal(err)
	}
}

const every, others = `{}`, `{"matchExpressions":[{"key":"app","operator":"NotIn","values":["a"]}]}`

func TestANamespaceHasOnePolicyForAllPodsUntilAUserSelectsSome(t *testing.T) {
	f := newFixture(t)
	f.reconcile(t)
	if got := f.ours(t); !slices.Equal(got, []string{every}) {
		t.Fatalf("without policies of users: %v", got)
	}
	before := len(f.World.Below.Actions())
	f.reconcile(t)
	if more := viewtest.Count(f.World.Below, "create") + viewtest.Count(f.World.Below, "delete"); more != 1 {
		t.Errorf("%d writes for one policy, of %d requests", more, before)
	}
	if err := f.World.Below.Tracker().Create(policies, policy("web", "a"), viewtest.PhysicalSpace); err != nil {
		t.Fatal(err)
	}
	f.ours(t)
	f.reconcile(t)
	if got := f.ours(t); !slices.Equal(got, []string{others}) {
		t.Errorf("with one of a user: %v", got)
	}
	if err := f.World.Below.Tracker().Delete(policies, viewtest.PhysicalSpace, "web"); err != nil {
		t.Fatal(err)
	}
	f.ours(t)
	f.reconcile(t)
	if got := f.ours(t); !slices.Equal(got, []string{every}) {
		t.Errorf("after it went: %v", got)
	}
}

func TestAPolicyThatSomebodyChangedOrDeletedIsMadeAnew(t *testing.T) {
	f := newFixture(t)
	f.reconcile(t)
	f.ours(t)
	made := f.PhysicalIn(policies, viewtest.PhysicalSpace)[0].DeepCopy()
	made.Object["spec"] = map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{}}}
	if err := f.World.Below.Tracker().Update(policies, made, viewtest.PhysicalSpace); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "the view has the change", func() bool {
		types, _, _ := unstructured.NestedSlice(f.PhysicalIn(policies, viewtest.PhysicalSpace)[0].Object, "spec", "policyTypes")
		return types == nil
	})
	f.reconcile(t)
	f.ours(t)
	viewtest.Eventually(t, "it is as it was", func() bool {
		list := f.PhysicalIn(policies, viewtest.PhysicalSpace)
		if len(list) != 1 {
			return false
		}
		types, _, _ := unstructured.NestedSlice(list[0].Object, "spec", "policyTypes")
		return len(types) == 1
	})
	if err := f.World.Below.Tracker().Delete(policies, viewtest.PhysicalSpace, made.GetName()); err != nil {
		t.Fatal(err)
	}
	f.ours(t)
	f.reconcile(t)
	if got := f.ours(t); len(got) != 1 {
		t.Errorf("deleted by somebody: %v", got)
	}
}

func TestNothingOfSomebodyElseIsReplaced(t *testing.T) {
	made, _ := syncer.Isolation(viewtest.ControlPlane, space, known(), nil)
	theirs := viewtest.Made("NetworkPolicy", made[0].GetName(), "theirs", "owner")
	theirs.Object["spec"] = map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Egress"}}
	f := newFixture(t, theirs)
	if _, err := f.Reconcile(f.Ctx, viewtest.PhysicalSpace); !errors.Is(err, syncer.ErrSupplyNotOurs) {
		t.Errorf("the name is taken: %v", err)
	}
	if err := f.Prepare(f.Ctx, space, "below-n"); !errors.Is(err, syncer.ErrSupplyNotOurs) {
		t.Errorf("pods do not wait for it: %v", err)
	}
	if n := viewtest.Count(f.World.Below, "delete"); n > 0 {
		t.Errorf("%d deletions", n)
	}
}

func TestPoliciesGoWhenTheAdminWantsNoneAndStayWhileNothingIsKnown(t *testing.T) {
	f := newFixture(t)
	f.reconcile(t)
	f.ours(t)
	f.permits = boundary.Permits{}
	f.reconcile(t)
	if got := f.ours(t); len(got) != 1 {
		t.Errorf("without the ranges of pods: %v", got)
	}
	f.permits.Network.Isolation = "None"
	f.reconcile(t)
	if got := f.ours(t); len(got) != 0 {
		t.Errorf("unwanted: %v", got)
	}
}

// A load balancer before the physical cluster that has no route for a moment says nothing of what is there.
func TestARemovalThatMetAPageIsTriedAgain(t *testing.T) {
	f := newFixture(t)
	f.reconcile(t)
	f.ours(t)
	met := viewtest.PageOnce(f.World.Below, "delete", policies.Resource)
	f.permits.Network.Isolation = "None"
	if _, err := f.Reconcile(f.Ctx, viewtest.PhysicalSpace); err == nil || !met() {
		t.Fatalf("it is left at that: met %t, error %v", met(), err)
	}
	f.reconcile(t)
	if got := f.ours(t); len(got) != 0 {
		t.Errorf("it is there: %v", got)
	}
}

func TestPodsWaitForThePoliciesOfTheirNamespaceOnceForEachMakingOfIt(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		if err := f.Prepare(f.Ctx, space, "below-n"); err != nil {
			t.Fatal(err)
		}
	}
	if n := viewtest.Count(f.World.Below, "create"); n != 1 {
		t.Errorf("%d requests for a namespace that is prepared", n)
	}
	if err := f.World.Below.Resource(policies).Namespace(viewtest.PhysicalSpace).DeleteCollection(f.Ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Prepare(f.Ctx, space, "made-again"); err != nil {
		t.Fatal(err)
	}
	if got := f.ours(t); len(got) != 1 {
		t.Errorf("made again: %v", got)
	}
}

// imported has the namespace have pods on another physical cluster, as the view shows it; without
// addresses none are imported.
func (f *fixture) imported(t *testing.T, addresses ...string) {
	t.Helper()
	client := f.Records.PlacementV1alpha1().PodImports("web")
	_ = client.Delete(f.Ctx, placementv1alpha1.PodImportName, metav1.DeleteOptions{})
	if len(addresses) > 0 {
		imp := &placementv1alpha1.PodImport{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: placementv1alpha1.PodImportName}, Spec: placementv1alpha1.PodImportSpec{
			Importers: []placementv1alpha1.PodImporter{{PhysicalCluster: viewtest.Target, Network: "n"}},
			Pods:      []placementv1alpha1.ImportedPods{{PhysicalCluster: "west", Network: "n", Addresses: addresses}},
		}}
		if _, err := client.Create(f.Ctx, imp, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	viewtest.Eventually(t, "the view has the pods elsewhere", func() bool {
		imports := f.PodImports(viewtest.Cluster)
		return len(addresses) == 0 && len(imports) == 0 || len(imports) == 1 && len(addresses) > 0 && slices.Equal(imports[0].Spec.Pods[0].Addresses, addresses)
	})
}

// elsewhere are the policies that admit pods on other physical clusters, as the view shows them: selector and addresses of each, and its UID.
func (f *fixture) elsewhere(t *testing.T) (found []string, uids []types.UID) {
	t.Helper()
	f.ours(t) // the view has as many
	for _, p := range f.PhysicalIn(policies, viewtest.PhysicalSpace) {
		if !syncer.IsElsewhere(viewtest.ControlPlane, p) {
			continue
		}
		selector, _, _ := unstructured.NestedMap(p.Object, "spec", "podSelector", "matchLabels")
		var of []string
		rules, _, _ := unstructured.NestedSlice(p.Object, "spec", "ingress")
		for _, rule := range rules {
			for _, peer := range rule.(map[string]any)["from"].([]any) {
				cidr, _, _ := unstructured.NestedString(peer.(map[string]any), "ipBlock", "cidr")
				of = append(of, cidr)
			}
		}
		found, uids = append(found, fmt.Sprint(selector, of)), append(uids, p.GetUID())
	}
	slices.Sort(found)
	return found, uids
}

func TestPodsElsewhereAreAdmittedBesideEachPolicy(t *testing.T) {
	web := policy("web", "a")
	web.Object["spec"].(map[string]any)["ingress"] = []any{map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{}}}}}
	f := newFixture(t, web)
	check := func(when string, want ...string) {
		t.Helper()
		f.reconcile(t)
		viewtest.Eventually(t, when, func() bool {
			got, _ := f.elsewhere(t)
			return slices.Equal(got, want)
		})
	}
	check("nobody is elsewhere")
	f.imported(t, "10.245.0.9")
	check("one is", "map[] [10.245.0.9/32]", "map[app:a] [10.245.0.9/32]")
	f.reconcile(t)
	if n := viewtest.Count(f.World.Below, "create") + viewtest.Count(f.World.Below, "patch"); n != 3 {
		t.Errorf("%d writes of three policies", n)
	}
	_, before := f.elsewhere(t)
	deleted := viewtest.Count(f.World.Below, "delete")
	f.imported(t, "10.245.0.9", "10.245.0.20")
	check("two are", "map[] [10.245.0.9/32 10.245.0.20/32]", "map[app:a] [10.245.0.9/32 10.245.0.20/32]")
	if _, after := f.elsewhere(t); !slices.Equal(before, after) || viewtest.Count(f.World.Below, "delete") != deleted {
		t.Errorf("they are others: %v, then %v", before, after)
	}
	if err := f.World.Below.Tracker().Delete(policies, viewtest.PhysicalSpace, "web"); err != nil {
		t.Fatal(err)
	}
	f.ours(t)
	check("the user's is gone", "map[] [10.245.0.9/32 10.245.0.20/32]")
	f.permits.Network.Isolation = "None"
	check("nobody is kept out")
	f.permits.Network.Isolation = ""
	check("they are again", "map[] [10.245.0.9/32 10.245.0.20/32]")
	f.imported(t)
	check("nobody is elsewhere any more")
	if f.lacking != (syncer.Lacking{}) {
		t.Errorf("something is lacking: %+v", f.lacking)
	}
}

func TestNothingElsewhereIsRemovedBeforeItIsKnown(t *testing.T) {
	at := syncer.PolicyPlace{ControlPlane: viewtest.ControlPlane, Target: viewtest.Target, Space: space, Permits: known()}
	isolating, _ := syncer.Isolation(viewtest.ControlPlane, space, known(), nil)
	made, _ := syncer.Elsewhere(at, isolating, []*placementv1alpha1.PodImport{{ObjectMeta: metav1.ObjectMeta{Namespace: "web"}, Spec: placementv1alpha1.PodImportSpec{
		Importers: []placementv1alpha1.PodImporter{{PhysicalCluster: viewtest.Target, Network: "n"}},
		Pods:      []placementv1alpha1.ImportedPods{{PhysicalCluster: "west", Network: "n", Addresses: []string{"10.245.0.9"}}},
	}}})
	f := prepare(t, isolating[0], made[0])
	gets := f.Lacks("podimports")
	f.Watch(t)
	f.reconcile(t)
	if got, _ := f.elsewhere(t); len(got) != 1 || f.PodsKnown() {
		t.Fatalf("while it is not known: %v", got)
	}
	gets()
	viewtest.Eventually(t, "it is known", f.PodsKnown)
	f.reconcile(t)
	viewtest.Eventually(t, "it is removed", func() bool { got, _ := f.elsewhere(t); return len(got) == 0 })
}

func TestWhoIsElsewhereIsLookedAtAgainNotTooOften(t *testing.T) {
	f := newFixture(t)
	look := func() controller.Result {
		t.Helper()
		result, err := f.Elsewhere(f.Ctx, controller.Request{Cluster: viewtest.Cluster})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := look(); result.RequeueAfter != 0 || len(f.enqueued) != 1 || len(f.next) != 0 {
		t.Errorf("without anybody: %+v, %v, %v remembered", result, f.enqueued, f.next)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("10.245.%d.%d", i/200, i%200))
	}
	f.imported(t, many...)
	look()
	if result := look(); result.RequeueAfter != syncer.ElsewhereInterval(1, 1000) || len(f.enqueued) != 2 {
		t.Errorf("at once again: %+v, %v", result, f.enqueued)
	}
	f.now = f.now.Add(time.Second)
	if result := look(); result.RequeueAfter != 0 || len(f.enqueued) != 3 {
		t.Errorf("a second later: %+v, %v", result, f.enqueued)
	}
}
