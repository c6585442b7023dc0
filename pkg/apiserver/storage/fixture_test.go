package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	upstream "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/etcd"
)

// deadline bounds every wait of the tests.
const deadline = 30 * time.Second

const prefix = "/pods"

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
	pods   = schema.GroupResource{Resource: "pods"}
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
}

// fixture is a store for example pods and what it was made of.
type fixture struct {
	upstream.Interface
	endpoint string
	stop     func()
}

// setup changes how a fixture is made.
type setup struct {
	resource schema.GroupResource
	endpoint string
	// registry is what keys in etcd begin with.
	registry string
	attrs    upstream.AttrFunc
	indexes  map[string]func(runtime.Object) []string
	options  storage.Options
}

// newStore makes a store that ends with the test.
func newStore(t testing.TB, change func(*setup)) *fixture {
	t.Helper()
	s := setup{resource: pods, registry: "/registry", attrs: upstream.DefaultNamespaceScopedAttr}
	if change != nil {
		change(&s)
	}
	if s.endpoint == "" {
		s.endpoint = etcd.Start(t)
	}
	config := storagebackend.NewDefaultConfig(s.registry, codecs.LegacyCodec(examplev1.SchemeGroupVersion))
	config.Transport.ServerList = []string{s.endpoint}
	config.CompactionInterval = 0
	getter := storage.NewRESTOptionsGetter(generic.RESTOptions{StorageConfig: config.ForResource(s.resource)}, s.options)
	if s.indexes != nil {
		getter = storage.WithIndexes(getter, s.indexes)
	}
	o, err := getter.GetRESTOptions(s.resource, &example.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	store, destroy, err := o.Decorator(o.StorageConfig, prefix,
		func(obj runtime.Object) (string, error) { return upstream.NamespaceKeyFunc(prefix+"/", obj) },
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		s.attrs, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	eventually(t, "the store is ready", func() error { return store.ReadinessCheck() })
	return &fixture{Interface: store, endpoint: s.endpoint, stop: destroy}
}

// eventually polls until check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, deadline, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not within %v: %v", what, deadline, last)
	}
}

// in returns a context about a logical cluster.
func in(t testing.TB, cluster string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return scope.WithCluster(ctx, logicalcluster.Name(cluster))
}

// everywhere returns a context about all logical clusters.
func everywhere(t testing.TB) context.Context { return in(t, "*") }

// as returns ctx as the view of a target.
func as(ctx context.Context, target string) context.Context { return scope.WithTarget(ctx, target) }

func key(namespace, name string) string { return prefix + "/" + namespace + "/" + name }

// pod makes a pod; targets, if any, are its targets.
func pod(name string, targets ...string) *example.Pod {
	p := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	setTargets(p, targets...)
	return p
}

func setTargets(p *example.Pod, targets ...string) {
	t := placementv1alpha1.Targets{}
	for _, name := range targets {
		t[name] = placementv1alpha1.Target{}
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, placementv1alpha1.TargetsAnnotation, t.String())
}

func (f *fixture) create(ctx context.Context, t testing.TB, p *example.Pod) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	if err := f.Create(ctx, key(p.Namespace, p.Name), p, out, 0); err != nil {
		t.Fatalf("creating %s: %v", p.Name, err)
	}
	return out
}

func (f *fixture) update(ctx context.Context, t testing.TB, name string, change func(*example.Pod)) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	if err := f.GuaranteedUpdate(ctx, key("ns", name), out, false, nil, upstream.SimpleUpdate(func(in runtime.Object) (runtime.Object, error) {
		p, ok := in.(*example.Pod)
		if !ok {
			return nil, fmt.Errorf("%T is no pod", in)
		}
		change(p)
		return p, nil
	}), nil); err != nil {
		t.Fatalf("updating %s: %v", name, err)
	}
	return out
}

func (f *fixture) delete(ctx context.Context, t testing.TB, name string) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	if err := f.Delete(ctx, key("ns", name), out, nil, upstream.ValidateAllObjectFunc, nil, upstream.DeleteOptions{}); err != nil {
		t.Fatalf("deleting %s: %v", name, err)
	}
	return out
}

// list lists key and returns "cluster/name" of each item, in order.
func (f *fixture) list(ctx context.Context, t testing.TB, key, rv string) []string {
	t.Helper()
	names, _ := f.listAt(ctx, t, key, rv)
	return names
}

func (f *fixture) listAt(ctx context.Context, t testing.TB, key, rv string) ([]string, string) {
	t.Helper()
	list := &example.PodList{}
	if err := f.GetList(ctx, key, upstream.ListOptions{ResourceVersion: rv, Recursive: true, Predicate: upstream.Everything}, list); err != nil {
		t.Fatalf("listing: %v", err)
	}
	names := []string{}
	for i := range list.Items {
		names = append(names, nameOf(&list.Items[i]))
	}
	return names, list.ResourceVersion
}

func nameOf(obj metav1.Object) string {
	return logicalcluster.From(obj).String() + "/" + obj.GetName()
}
