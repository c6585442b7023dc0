package admission

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	kubefake "k8s.io/client-go/kubernetes/fake"
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
	c := &Chain{own: f.plugin, informers: NewInformers(kubefake.NewClientset(), accounts), mutating: []step{{"rule", r}}, validating: []step{{"rule", r}}}
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
	c.informers = NewInformers(kubefake.NewClientset(), c.informers.ServiceAccounts) // none runs
	ctx, cancel := context.WithCancel(scope.WithCluster(t.Context(), "shop"))
	cancel() // rather than wait
	err := c.Admit(ctx, creation(alice, nil), nil)
	if err == nil || r.mutated != 0 {
		t.Errorf("got %v, asked %d times; want a refusal", err, r.mutated)
	}
}
