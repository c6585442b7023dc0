package defaults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	atollstorage "github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/etcd"
)

const (
	prefix   = "/pods"
	deadline = 30 * time.Second
)

var born = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// fixture is the storage of example pods over a real etcd, with the defaults "admin"
// (label tier: high) and "view".
type fixture struct {
	storage.Interface
	raw bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	config := storagebackend.NewDefaultConfig("/registry", serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion))
	config.Transport.ServerList = []string{etcd.Start(t)}
	config.CompactionInterval = 0
	resource := schema.GroupResource{Resource: "pods"}
	set, err := NewSet(resource, pod("view", ""), pod("admin", "high"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{}
	getter := Getter(atollstorage.NewRESTOptionsGetter(generic.RESTOptions{StorageConfig: config.ForResource(resource)}, atollstorage.Options{}),
		Options{
			Born: func(context.Context, logicalcluster.Name) metav1.Time { return born },
			Raw:  func(context.Context) bool { return f.raw },
		}, set)
	o, err := getter.GetRESTOptions(resource, &example.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	s, destroy, err := o.Decorator(o.StorageConfig, prefix,
		func(obj runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc(prefix+"/", obj) },
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		storage.DefaultClusterScopedAttr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	f.Interface = s
	for end := time.Now().Add(deadline); s.ReadinessCheck() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the storage is not ready:", s.ReadinessCheck())
		}
	}
	return f
}

func pod(name, tier string) *example.Pod {
	p := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if tier != "" {
		p.Labels = map[string]string{"tier": tier}
	}
	return p
}

func in(t *testing.T, cluster logicalcluster.Name) context.Context {
	t.Helper()
	return scope.With(t.Context(), scope.Scope{Cluster: cluster})
}

func key(name string) string { return prefix + "/" + name }

func (f *fixture) get(ctx context.Context, t *testing.T, name string) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	if err := f.Get(ctx, key(name), storage.GetOptions{}, out); err != nil {
		t.Fatalf("getting %s: %v", name, err)
	}
	return out
}

// setTier changes a pod as a user would.
func (f *fixture) setTier(ctx context.Context, t *testing.T, name, tier string) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	err := f.GuaranteedUpdate(ctx, key(name), out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		obj.(*example.Pod).Labels = map[string]string{"tier": tier}
		return obj, nil
	}), nil)
	if err != nil {
		t.Fatalf("changing %s: %v", name, err)
	}
	return out
}

func (f *fixture) remove(ctx context.Context, name string) error {
	return f.Delete(ctx, key(name), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
}

// list prints what a list shows: the names and tiers.
func (f *fixture) list(ctx context.Context, t *testing.T, p storage.SelectionPredicate) string {
	t.Helper()
	var list example.PodList
	if err := f.GetList(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: p}, &list); err != nil {
		t.Fatalf("listing: %v", err)
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, describe(&p))
	}
	return strings.Join(out, " ")
}

func describe(p *example.Pod) string { return strings.TrimSuffix(p.Name+"="+p.Labels["tier"], "=") }

func selectedBy(t *testing.T, selector string) storage.SelectionPredicate {
	t.Helper()
	s, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return storage.SelectionPredicate{Label: s, Field: fields.Everything(), GetAttrs: storage.DefaultClusterScopedAttr}
}

func TestADefaultIsThereInEveryLogicalClusterWithAnUIDOfItsOwn(t *testing.T) {
	f := newFixture(t)
	a, b := f.get(in(t, "a"), t, "admin"), f.get(in(t, "b"), t, "admin")
	if a.UID == "" || a.UID == b.UID {
		t.Errorf("UIDs %q and %q, want two", a.UID, b.UID)
	}
	if again := f.get(in(t, "a"), t, "admin"); again.UID != a.UID {
		t.Errorf("UID %q the first time, %q the second", a.UID, again.UID)
	}
	want := pod("admin", "high")
	want.UID, want.ResourceVersion, want.CreationTimestamp = a.UID, "1", born
	want.Annotations = map[string]string{logicalcluster.AnnotationKey: "a"}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := f.Get(in(t, scope.Wildcard), key("admin"), storage.GetOptions{}, &example.Pod{}); err == nil {
		t.Error("there is one in all logical clusters together")
	}
}

func TestAChangedDefaultIsStoredInThatLogicalClusterOnlyAndKeepsItsUID(t *testing.T) {
	f := newFixture(t)
	a, b := in(t, "a"), in(t, "b")
	before := f.get(a, t, "admin")
	changed := f.setTier(a, t, "admin", "low")
	if changed.UID != before.UID || changed.ResourceVersion == "1" {
		t.Errorf("UID %q, was %q; resource version %q, want that of a stored object", changed.UID, before.UID, changed.ResourceVersion)
	}
	if got := describe(f.get(a, t, "admin")); got != "admin=low" {
		t.Errorf("where it was changed: %s", got)
	}
	if got := describe(f.get(b, t, "admin")); got != "admin=high" {
		t.Errorf("elsewhere: %s", got)
	}
	f.raw = true
	if got := f.list(a, t, storage.Everything) + "|" + f.list(b, t, storage.Everything); got != "admin=low|" {
		t.Errorf("stored in both: %q", got)
	}
}

func TestAChangeThatChangesNothingStoresNothing(t *testing.T) {
	f := newFixture(t)
	if got := f.setTier(in(t, "a"), t, "admin", "high"); got.ResourceVersion != "1" {
		t.Errorf("resource version %q, want that of the default", got.ResourceVersion)
	}
	f.raw = true
	if got := f.list(in(t, "a"), t, storage.Everything); got != "" {
		t.Errorf("stored: %s", got)
	}
}

func TestDeletingAChangedDefaultBringsItBackAndADefaultCannotBeDeleted(t *testing.T) {
	f := newFixture(t)
	ctx := in(t, "a")
	if err := f.remove(ctx, "admin"); !apierrors.IsForbidden(err) {
		t.Errorf("deleting a default: %v, want Forbidden", err)
	}
	f.setTier(ctx, t, "admin", "low")
	if err := f.remove(ctx, "admin"); err != nil {
		t.Errorf("deleting the changed one: %v", err)
	}
	if got := describe(f.get(ctx, t, "admin")); got != "admin=high" {
		t.Errorf("after the delete: %s", got)
	}
	if err := f.remove(ctx, "nobody"); !storage.IsNotFound(err) {
		t.Errorf("deleting what is no default: %v, want not found", err)
	}
}

func TestADefaultExistsAlreadyForWhoCreatesIt(t *testing.T) {
	f := newFixture(t)
	err := f.Create(in(t, "a"), key("admin"), pod("admin", "mine"), &example.Pod{}, 0)
	if !storage.IsExist(err) {
		t.Errorf("%v, want that it exists", err)
	}
	if err := f.Create(in(t, "a"), key("mine"), pod("mine", ""), &example.Pod{}, 0); err != nil {
		t.Errorf("creating another: %v", err)
	}
}

func TestAPreconditionIsAboutWhatIsSeen(t *testing.T) {
	f := newFixture(t)
	ctx := in(t, "a")
	update := func(pre *storage.Preconditions) error {
		return f.GuaranteedUpdate(ctx, key("admin"), &example.Pod{}, false, pre, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			obj.(*example.Pod).Labels = map[string]string{"tier": "low"}
			return obj, nil
		}), nil)
	}
	if err := update(storage.NewUIDPreconditions("of another")); !storage.IsInvalidObj(err) {
		t.Errorf("with another UID: %v, want a failed precondition", err)
	}
	if err := update(storage.NewUIDPreconditions(string(f.get(ctx, t, "admin").UID))); err != nil {
		t.Errorf("with its UID: %v", err)
	}
}

func TestAListShowsDefaultsBesideWhatIsStoredInOrderAndSelected(t *testing.T) {
	f := newFixture(t)
	ctx := in(t, "a")
	f.setTier(ctx, t, "view", "low")
	if err := f.Create(ctx, key("mine"), pod("mine", "high"), &example.Pod{}, 0); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]string{
		"":          "admin=high mine=high view=low",
		"tier=high": "admin=high mine=high",
		"tier=low":  "view=low", // the default has no tier, what hides it has
		"!tier":     "",         // the default would match, and is hidden
		"tier=none": "",
	} {
		if got := f.list(ctx, t, selectedBy(t, selector)); got != want {
			t.Errorf("selected by %q: %q, want %q", selector, got, want)
		}
	}
	if got := f.list(in(t, "b"), t, storage.Everything); got != "admin=high view" {
		t.Errorf("in another logical cluster: %q", got)
	}
	if got := f.list(in(t, scope.Wildcard), t, storage.Everything); got != "mine=high view=low" {
		t.Errorf("in all logical clusters: %q", got)
	}
	if got := f.list(scope.WithTarget(ctx, "east"), t, storage.Everything); strings.Contains(got, "admin") {
		t.Errorf("a syncer sees a default: %q", got)
	}
}

// The cells of the table in watch.go.
func TestAWatchShowsDefaultsThatChangeAndComeBack(t *testing.T) {
	f := newFixture(t)
	ctx := in(t, "a")
	w, err := f.Watch(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	expect := func(want ...string) {
		t.Helper()
		for _, want := range want {
			if got := next(t, w); got != want {
				t.Fatalf("event %q, want %q", got, want)
			}
		}
	}
	expect("ADDED admin=high", "ADDED view")
	f.setTier(ctx, t, "admin", "low")
	expect("MODIFIED admin=low")
	if err := f.Create(ctx, key("mine"), pod("mine", ""), &example.Pod{}, 0); err != nil {
		t.Fatal(err)
	}
	expect("ADDED mine")
	for _, name := range []string{"admin", "mine"} {
		if err := f.remove(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	expect("MODIFIED admin=high", "DELETED mine")
}

func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		if shared, ok := e.Object.(runtime.CacheableObject); ok { // encoded once for all watchers
			e.Object = shared.GetObject()
		}
		p, ok := e.Object.(*example.Pod)
		if !ok {
			t.Fatalf("event %+v", e)
		}
		return fmt.Sprint(e.Type, " ", describe(p))
	case <-time.After(deadline):
		t.Fatal("no event came")
		return ""
	}
}
