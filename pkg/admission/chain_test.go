package admission

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// rule is a fake of everything that tenants decide.
type rule struct {
	*admission.Handler
	mutated, validated int
	reinvoke           bool
	refusal            error
	seen               map[string]string
}

func (r *rule) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r.mutated++
	obj, err := meta.Accessor(a.GetObject())
	if err != nil {
		return err
	}
	obj.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"west":{}}`, "of": "the rule"})
	if r.reinvoke {
		a.GetReinvocationContext().SetShouldReinvoke()
	}
	return nil
}

func (r *rule) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r.validated++
	obj, err := meta.Accessor(a.GetObject())
	if err != nil {
		return err
	}
	r.seen = obj.GetAnnotations()
	return r.refusal
}

func chain(t *testing.T, r *rule) *Chain {
	t.Helper()
	f := world{namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"kcp.io/cluster": "shop"}}}}}.start(t)
	accounts := fixed(t, &corev1.ServiceAccountList{}, &corev1.ServiceAccount{})
	c := &Chain{own: f.own, mutating: []step{{"rule", r}}, validating: []step{{"rule", r}}}
	c.follow(NewInformers(kubefake.NewClientset(), accounts))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.informers.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := c.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func newRule() *rule { return &rule{Handler: admission.NewHandler(admission.Create)} }

// creation of a config map; uid is what a syncer has to say.
func creation(u user.Info, annotations map[string]string) admission.Attributes {
	obj := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "web", Annotations: annotations}}
	return admission.NewAttributesRecord(obj, nil, core.Kind("ConfigMap").WithVersion("v1"), "web", "c",
		core.Resource("configmaps").WithVersion("v1"), "", admission.Create, nil, false, u)
}

func TestOnlyUsersPassWhatTenantsDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		user user.Info
		want int
	}{"user": {alice, 1}, "admin": {master, 1}, "server": {loopback, 0}} {
		t.Run(name, func(t *testing.T) {
			r := newRule()
			c := chain(t, r)
			ctx := scope.WithCluster(t.Context(), "shop")
			a := creation(tc.user, nil)
			if err := c.Admit(ctx, a, nil); err != nil {
				t.Fatal(err)
			}
			if err := c.Validate(ctx, a, nil); err != nil {
				t.Fatal(err)
			}
			if r.mutated != tc.want || r.validated != tc.want {
				t.Errorf("asked %d and %d times, want %d", r.mutated, r.validated, tc.want)
			}
		})
	}
}

func TestSyncersDoNotPassWhatTenantsDecide(t *testing.T) {
	r := newRule()
	r.refusal = errors.New("no")
	c := chain(t, r)
	slice := creation(east, map[string]string{placementv1alpha1.UIDAnnotation: "1"})
	_ = c.Admit(scope.WithCluster(t.Context(), "shop"), slice, nil)
	_ = c.Validate(scope.WithCluster(t.Context(), "shop"), slice, nil)
	if r.mutated != 0 || r.validated != 0 {
		t.Errorf("asked %d and %d times", r.mutated, r.validated)
	}
}

func TestWhatARuleDoesToOurMetadataIsUndoneBeforeAnybodyValidates(t *testing.T) {
	r := newRule()
	c := chain(t, r)
	ctx := scope.WithCluster(t.Context(), "shop")
	a := creation(alice, nil)
	if err := c.Admit(ctx, a, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(ctx, a, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"kcp.io/cluster": "shop", "of": "the rule"}, r.seen); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestARuleThatAsksForItIsAskedAgain(t *testing.T) {
	r := newRule()
	r.reinvoke = true
	c := chain(t, r)
	if err := c.Admit(scope.WithCluster(t.Context(), "shop"), creation(alice, nil), nil); err != nil {
		t.Fatal(err)
	}
	if r.mutated != 2 {
		t.Errorf("asked %d times, want twice", r.mutated)
	}
}

func TestNoRuleIsSkippedBeforeRulesAreKnown(t *testing.T) {
	r := newRule()
	c := chain(t, r)
	c.follow(NewInformers(kubefake.NewClientset(), c.informers.ServiceAccounts)) // none runs
	ctx, cancel := context.WithCancel(scope.WithCluster(t.Context(), "shop"))
	cancel() // rather than wait
	err := c.Admit(ctx, creation(alice, nil), nil)
	if err == nil || r.mutated != 0 {
		t.Errorf("got %v, asked %d times; want a refusal", err, r.mutated)
	}
}

// The informer does not have the policy yet; whoever wrote it writes what it selects next.
func TestAPolicyHoldsForTheNextObjectOfWhoWroteIt(t *testing.T) {
	for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
		f := placedWorld().start(t)
		c := &Chain{own: f.own, informers: chain(t, newRule()).informers}
		policy := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "front", Namespace: "web", Annotations: map[string]string{"kcp.io/cluster": "shop"}}}
		var obj, old runtime.Object = policy, policy.DeepCopy()
		switch op {
		case admission.Create:
			old = nil
		case admission.Delete:
			obj = nil
		}
		selecting := placementv1alpha1.PlacementPolicyList{Items: []placementv1alpha1.PlacementPolicy{*policy.DeepCopy()}}
		selecting.Items[0].Spec.Objects = &placementv1alpha1.ObjectSelection{Names: []string{"x"}}
		f.atoll.PrependReactor("list", "placementpolicies", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &selecting, nil })
		d := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", Annotations: map[string]string{}}}
		write := attributes(op, "placementpolicies.placement.atoll.dev", "PlacementPolicy", obj, old, "", alice)
		for _, a := range []admission.Attributes{write, attributes(admission.Create, "deployments.apps", "Deployment", d, nil, "", alice)} {
			if err := c.Admit(shop(), a, nil); err != nil {
				continue // there is no namespace to decide it in
			}
			if err := c.Validate(shop(), a, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.Annotations[placementv1alpha1.TargetsAnnotation]; got != "" {
			t.Errorf("after a %s the object is placed with its namespace, on %s", op, got)
		}
	}
}
