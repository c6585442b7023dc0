package stock

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func environment(t *testing.T, host string) *Environment {
	t.Helper()
	guard, err := egress.NewGuard(egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEnvironment(Config{
		Egress:   guard,
		Loopback: scope.ScopedConfig(&rest.Config{Host: host}), Viewers: controller.NewViewers(),
		Authorizer: authorizer.UnconditionalAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer()),
		Mapper:     func(context.Context, logicalcluster.Name) (meta.RESTMapper, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// rules counts the objects of logical clusters.
type rules map[logicalcluster.Name]int

func (r rules) HasCluster(c logicalcluster.Name) bool { return r[c] > 0 }

// recorder is a plugin that knows which logical cluster it was made for.
type recorder struct {
	*admission.Handler
	stop  <-chan struct{}
	calls []logicalcluster.Name
}

func (r *recorder) SetDrainedNotification(stop <-chan struct{}) { r.stop = stop }
func (r *recorder) ValidateInitialization() error               { return nil }
func (r *recorder) Validate(ctx context.Context, _ admission.Attributes, _ admission.ObjectInterfaces) error {
	c, _ := scope.ClusterFrom(ctx)
	r.calls = append(r.calls, c)
	return nil
}

func TestALazyPluginHasOneInstanceForEachLogicalClusterWithRules(t *testing.T) {
	counts := rules{"a": 1, "b": 1}
	var made []*recorder
	l := newLazy(environment(t, "https://none"), counts, admission.NewHandler(admission.Create), func(*setup) (admission.Interface, error) {
		r := &recorder{Handler: admission.NewHandler(admission.Create)}
		made = append(made, r)
		return r, nil
	})
	validate := func(c logicalcluster.Name) {
		t.Helper()
		if err := l.Validate(scope.WithCluster(t.Context(), c), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	validate("none")
	if len(made) != 0 {
		t.Fatal("an instance was made for a logical cluster without rules")
	}
	validate("a")
	validate("b")
	validate("a")
	if len(made) != 2 {
		t.Fatalf("%d instances, want 2", len(made))
	}
	if diff := cmp.Diff([][]logicalcluster.Name{{"a", "a"}, {"b"}}, [][]logicalcluster.Name{made[0].calls, made[1].calls}); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	counts["a"] = 0
	for _, c := range []logicalcluster.Name{"a", "b"} {
		if err := l.reconcile(c); err != nil {
			t.Fatal(err)
		}
	}
	if !closed(made[0].stop) || closed(made[1].stop) {
		t.Errorf("stopped: %v and %v, want the first only", closed(made[0].stop), closed(made[1].stop))
	}
	validate("a")
	counts["a"] = 1
	validate("a")
	if len(made) != 3 || len(made[0].calls) != 2 || len(made[2].calls) != 1 {
		t.Errorf("%d instances, want a third for rules that came back", len(made))
	}
	l.close()
	if !closed(made[1].stop) || !closed(made[2].stop) {
		t.Error("an instance was left")
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestALazyPluginWithoutALogicalClusterRefuses(t *testing.T) {
	l := newLazy(environment(t, "https://none"), rules{}, admission.NewHandler(admission.Create), nil)
	if _, err := l.of(t.Context()); err == nil {
		t.Error("no error without a logical cluster")
	}
	if _, err := l.of(scope.WithCluster(t.Context(), scope.Wildcard)); err == nil {
		t.Error("no error for all logical clusters")
	}
}

func TestAPinnedClientTalksToItsLogicalClusterWhateverTheContext(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		paths = append(paths, req.URL.Path)
		http.NotFound(w, req)
	}))
	t.Cleanup(server.Close)
	e := environment(t, server.URL)
	full, err := e.full("own", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []kubernetes.Interface{full.kube, e.brief("own").kube} {
		for _, ctx := range []context.Context{
			context.Background(), scope.WithCluster(t.Context(), "other"), scope.With(t.Context(), scope.Scope{Cluster: "other", Target: "east"}),
		} {
			_, _ = client.CoreV1().ConfigMaps("web").Get(ctx, "a", metav1.GetOptions{})
		}
	}
	want := "/clusters/own/api/v1/namespaces/web/configmaps/a"
	if diff := cmp.Diff([]string{want, want, want, want, want, want}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestTheNewestDefaultStorageClassIsTaken(t *testing.T) {
	class := func(name string, age int64, annotation string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(1000-age, 0), Annotations: map[string]string{annotation: "true"},
		}}
	}
	for want, classes := range map[string][]*storagev1.StorageClass{
		"":    {class("a", 1, "other")},
		"new": {class("old", 2, defaultClass), class("new", 1, defaultClassBeta), class("newest", 0, "other")},
		"a":   {class("b", 1, defaultClass), class("a", 1, defaultClass)},
	} {
		var got string
		if found := newestDefault(classes); found != nil {
			got = found.Name
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
