package isolation

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-dev/atoll/pkg/boundary"
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
	permits    boundary.Permits
	incomplete int
}

func newFixture(t *testing.T, below ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{World: viewtest.New(t, nil, append(below, viewtest.CopyOf(viewtest.Namespace(), "below-n"))), permits: known()}
	f.Keeper = New(Config{
		View: f.World.View, Down: f.World.Down(), Permits: func() boundary.Permits { return f.permits },
		Incomplete: func(n int) { f.incomplete = n },
	})
	f.Watch(t)
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
