package supplies

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	server = syncer.Server{Host: "10.0.0.1", Port: "6443", CA: "authority"}
	token  = syncer.Token{TokenUse: workload.TokenUse{Account: "robot", Seconds: 24 * 3600}, UID: "a1"}
	space  = syncer.Space{Cluster: viewtest.Cluster, Namespace: "web", Physical: viewtest.PhysicalSpace}
)

// fixture is a Keeper between two servers in memory, of which the control plane signs.
type fixture struct {
	*viewtest.World
	*Keeper
	asked   []*authenticationv1.TokenRequest
	refused error
	// ahead is by how much the clock of the server is.
	ahead time.Duration
}

func newFixture(t *testing.T, above, below []runtime.Object) *fixture {
	t.Helper()
	account := viewtest.Logical("ConfigMap", "web", "robot", "a1", `{"east":{}}`)
	account.SetKind("ServiceAccount") // which is no kind of the catalog
	f := &fixture{World: viewtest.New(t, append(above, viewtest.Namespace(), account), below)}
	f.Kube.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clienttesting.CreateAction)
		if !ok || a.GetSubresource() != "token" {
			return false, nil, nil
		}
		if f.refused != nil {
			return true, nil, f.refused
		}
		request := create.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		f.asked = append(f.asked, request)
		request.Status = authenticationv1.TokenRequestStatus{Token: "new", ExpirationTimestamp: metav1.NewTime(time.Now().Add(f.ahead + 24*time.Hour))}
		return true, request, nil
	})
	f.Keeper = New(Config{View: f.World.View, Up: f.World.Up(), Down: f.World.Down(), Server: func() syncer.Server { return server }})
	return f
}

// sweepOnce is a sweep, and all that follows from it.
func (f *fixture) sweepOnce(t *testing.T) {
	t.Helper()
	for _, d := range f.sweep(f.Ctx, time.Now()) {
		if _, err := f.keep(f.Ctx, d); err != nil {
			t.Fatal(err)
		}
	}
}

// What is due names its logical cluster, by which the queue goes round.
func TestWhatIsDueIsThatOfItsLogicalCluster(t *testing.T) {
	f := newFixture(t, []runtime.Object{deployment()}, []runtime.Object{held(13 * time.Hour)})
	f.Watch(t)
	all := f.sweep(f.Ctx, time.Now())
	if len(all) != 1 || all[0].LogicalCluster() != viewtest.Cluster || all[0].token != token {
		t.Errorf("due: %v", all)
	}
}

// deployment mounts the token of robot.
func deployment() *unstructured.Unstructured {
	app := viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
	app.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"serviceAccountName": "robot"}}}
	return app
}

// held is a Secret that was written some time ago.
func held(ago time.Duration) *unstructured.Unstructured {
	issued := time.Now().Add(-ago)
	secret := syncer.TokenSecret(viewtest.ControlPlane, space, token, "old", issued, issued.Add(24*time.Hour))
	secret.SetUID("s1")
	secret.SetResourceVersion("5")
	secret.SetCreationTimestamp(metav1.NewTime(issued))
	return secret
}

func (f *fixture) held(t *testing.T, gvr schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := f.Below.Resource(gvr).Namespace(viewtest.PhysicalSpace).Get(f.Ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (f *fixture) tokenBelow(t *testing.T) string {
	t.Helper()
	secret := f.held(t, secrets, token.Secret())
	if secret == nil {
		return ""
	}
	data, _, _ := unstructured.NestedString(secret.Object, "data", "token")
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSuppliesAreMadeOnceAndAreMissingUntilThen(t *testing.T) {
	f := newFixture(t, nil, nil)
	f.Watch(t)
	needs := syncer.Supplies{Tokens: []syncer.Token{token}, CA: server.CA}
	missing := f.Missing(viewtest.PhysicalSpace, needs)
	if len(missing.Tokens) != 1 || missing.CA == "" {
		t.Fatalf("missing: %+v", missing)
	}
	if err := f.Write(f.Ctx, space, missing); err != nil {
		t.Fatal(err)
	}
	if missing := f.Missing(viewtest.PhysicalSpace, needs); !missing.Empty() {
		t.Errorf("missing after it was written: %+v", missing)
	}
	if got := f.tokenBelow(t); got != "new" {
		t.Errorf("the Secret holds %q", got)
	}
	if ca := syncer.CAIn(f.held(t, configMaps, "atoll-root-ca.crt")); ca != "authority" {
		t.Errorf("the authority is %q", ca)
	}
	if len(f.asked) != 1 || f.asked[0].UID != "a1" || len(f.asked[0].Spec.Audiences) != 0 || *f.asked[0].Spec.ExpirationSeconds != 24*3600 {
		t.Errorf("asked for: %+v", f.asked)
	}
}

// The server says when a token ends by its own clock, which may be far from that of the syncer.
func TestATokenLastsByTheClockOfTheSyncer(t *testing.T) {
	for _, ahead := range []time.Duration{-25 * time.Hour, 0, 25 * time.Hour} {
		f := newFixture(t, nil, nil)
		f.ahead = ahead
		f.Watch(t)
		if err := f.Write(f.Ctx, space, syncer.Supplies{Tokens: []syncer.Token{token}}); err != nil {
			t.Fatal(err)
		}
		secret, now := f.held(t, secrets, token.Secret()), time.Now()
		for after, want := range map[time.Duration]syncer.SupplyStanding{0: syncer.SupplyGood, 13 * time.Hour: syncer.SupplyDue, 25 * time.Hour: syncer.SupplyExpired} {
			if got := syncer.StandingOf(secret, now.Add(after)); got != want {
				t.Errorf("a server whose clock is %s ahead: after %s its token is %s, want %s", ahead, after, got, want)
			}
		}
	}
}

func TestASecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	theirs := held(0)
	theirs.SetLabels(nil)
	f := newFixture(t, nil, []runtime.Object{theirs})
	f.Watch(t)
	if err := f.Write(f.Ctx, space, syncer.Supplies{Tokens: []syncer.Token{token}}); err == nil {
		t.Error("it was written")
	}
	if got := f.tokenBelow(t); got != "old" {
		t.Errorf("the Secret holds %q", got)
	}
}

func TestATokenIsRenewedAtHalfItsLifeAndRemovedWhenNothingMountsIt(t *testing.T) {
	pod := viewtest.Object("Pod", viewtest.PhysicalSpace, "app-1", "p")
	pod.SetLabels(map[string]string{"atoll.dev/managed-by": viewtest.ControlPlane})
	pod.Object["spec"] = map[string]any{"volumes": []any{map[string]any{"name": "v", "projected": map[string]any{
		"sources": []any{map[string]any{"secret": map[string]any{"name": token.Secret()}}},
	}}}}
	for name, c := range map[string]struct {
		above, pods []runtime.Object
		age         time.Duration
		refused     error
		want        string
	}{
		"young":                     {above: []runtime.Object{deployment()}, age: 11 * time.Hour, want: "old"},
		"at half its life":          {above: []runtime.Object{deployment()}, age: 13 * time.Hour, want: "new"},
		"expired":                   {above: []runtime.Object{deployment()}, age: 48 * time.Hour, want: "new"},
		"mounted by a pod alone":    {pods: []runtime.Object{pod}, age: 13 * time.Hour, want: "new"},
		"the control plane refuses": {pods: []runtime.Object{pod}, age: 13 * time.Hour, refused: apierrors.NewForbidden(schema.GroupResource{}, "robot", nil), want: "old"},
		"nothing mounts it":         {age: 2 * time.Hour, want: ""},
		"nothing mounts it as yet":  {age: 0, want: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.above, append(slices.Clone(c.pods), held(c.age)))
			f.refused = c.refused
			f.Watch(t)
			f.sweepOnce(t)
			if got := f.tokenBelow(t); got != c.want {
				t.Errorf("the Secret holds %q, want %q", got, c.want)
			}
			for _, a := range f.Below.Actions() {
				if a.GetVerb() == "update" {
					t.Errorf("the account that is made for a syncer may not update %s", a.GetResource().Resource)
				}
			}
		})
	}
}

// Thousands of them of one tenant hold up nobody else's tokens, so they are removed one after the other by the queue: later.
func TestWhatIsNeededAgainIsNotRemoved(t *testing.T) {
	f := newFixture(t, nil, []runtime.Object{held(2 * time.Hour)})
	f.Watch(t)
	all := f.sweep(f.Ctx, time.Now())
	if len(all) != 1 || all[0].uid != "s1" || all[0].LogicalCluster() != viewtest.Cluster {
		t.Fatalf("due: %v", all)
	}
	if got := f.tokenBelow(t); got != "old" {
		t.Errorf("the sweep itself removes it: %q is left", got)
	}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	if _, err := f.World.Above.Resource(deployments).Namespace("web").Create(f.Ctx, deployment(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "the view shows it", func() bool { return len(f.World.View.ObjectsIn(deployments, viewtest.Cluster, "web")) > 0 })
	if _, err := f.keep(f.Ctx, all[0]); err != nil {
		t.Fatal(err)
	}
	if got := f.tokenBelow(t); got != "old" {
		t.Errorf("the Secret holds %q", got)
	}
}

func TestTheTokenOfAnAccountThatIsGoneIsNotAskedForAgain(t *testing.T) {
	f := newFixture(t, []runtime.Object{deployment()}, nil)
	other := token
	other.UID = "before"
	issued := time.Now().Add(-20 * time.Hour)
	secret := syncer.TokenSecret(viewtest.ControlPlane, space, other, "old", issued, issued.Add(24*time.Hour))
	pod := viewtest.Object("Pod", viewtest.PhysicalSpace, "app-1", "p")
	pod.SetLabels(map[string]string{"atoll.dev/managed-by": viewtest.ControlPlane})
	pod.Object["spec"] = map[string]any{"volumes": []any{map[string]any{"name": "v", "projected": map[string]any{
		"sources": []any{map[string]any{"secret": map[string]any{"name": other.Secret()}}},
	}}}}
	for gvr, obj := range map[schema.GroupVersionResource]*unstructured.Unstructured{secrets: secret, pods: pod} {
		if _, err := f.Below.Resource(gvr).Namespace(viewtest.PhysicalSpace).Create(f.Ctx, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.Watch(t)
	f.sweepOnce(t)
	if len(f.asked) != 0 {
		t.Errorf("asked for: %+v", f.asked)
	}
}

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
