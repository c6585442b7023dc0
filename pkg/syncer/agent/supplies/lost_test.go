package supplies

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

func physicalNamespace(uid types.UID) *unstructured.Unstructured {
	namespace := viewtest.Object("Namespace", "", viewtest.PhysicalSpace, uid)
	namespace.SetLabels(map[string]string{"atoll.dev/managed-by": viewtest.ControlPlane})
	return namespace
}

// A namespace that moves away and back is made again within the time for which an own write
// is believed: what was written went with the namespace before.
func TestWhatWasWrittenIsNotBelievedOfANamespaceThatIsMadeAgain(t *testing.T) {
	f := newFixture(t, nil, []runtime.Object{physicalNamespace("n1")})
	f.Watch(t)
	needs := syncer.Supplies{Tokens: []syncer.Token{token}, CA: server.CA}
	if err := f.Write(f.Ctx, space, needs); err != nil {
		t.Fatal(err)
	}
	if missing := f.Missing(viewtest.PhysicalSpace, needs); !missing.Empty() {
		t.Fatalf("missing after it was written: %+v", missing)
	}
	for _, p := range []place{{secrets, viewtest.PhysicalSpace, token.Secret()}, {configMaps, viewtest.PhysicalSpace, "atoll-root-ca.crt"}, {view.Namespaces, "", viewtest.PhysicalSpace}} {
		if err := f.Below.Resource(p.resource).Namespace(p.namespace).Delete(f.Ctx, p.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Below.Resource(view.Namespaces).Create(f.Ctx, physicalNamespace("n2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if missing := f.Missing(viewtest.PhysicalSpace, needs); len(missing.Tokens) != 1 || missing.CA == "" {
			return fmt.Errorf("missing in the namespace that was made again: %+v", missing)
		}
		return nil
	})
}

// copyBelow mounts a Secret.
func copyBelow(secret string) *unstructured.Unstructured {
	app := viewtest.Object("Deployment", viewtest.PhysicalSpace, "app", "p")
	app.SetLabels(map[string]string{"atoll.dev/managed-by": viewtest.ControlPlane})
	app.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": []any{map[string]any{"name": "v", "projected": map[string]any{
		"sources": []any{map[string]any{"secret": map[string]any{"name": secret}}, map[string]any{"configMap": map[string]any{"name": "atoll-root-ca.crt"}}},
	}}}}}}
	return app
}

func TestWhatACopyMountsIsMadeAgainWhenItIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		above, below []runtime.Object
		want         string
	}{
		"mounted":                 {[]runtime.Object{deployment()}, []runtime.Object{copyBelow(token.Secret())}, "new"},
		"another one is mounted":  {[]runtime.Object{deployment()}, []runtime.Object{copyBelow("atoll-token-before")}, ""},
		"the copy is not there":   {[]runtime.Object{deployment()}, nil, ""},
		"the object is not there": {nil, []runtime.Object{copyBelow(token.Secret())}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.above, c.below)
			f.Watch(t)
			f.sweepOnce(t)
			if got := f.tokenBelow(t); got != c.want {
				t.Errorf("the Secret holds %q, want %q", got, c.want)
			}
			if got, want := f.held(t, configMaps, "atoll-root-ca.crt") != nil, len(c.above) == 1 && len(c.below) == 1; got != want {
				t.Errorf("the authority is there: %v, want %v", got, want)
			}
		})
	}
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
