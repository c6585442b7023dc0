package storage_test

import (
	"context"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	ours "github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	cluster      = logicalcluster.Name("conformance")
	target       = "east"
	etcdPrefix   = "/registry"
	prefix       = "/pods/"
	storedPrefix = "test!"
)

var (
	scheme = runtime.NewScheme()
	codec  runtime.Codec
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	codec = serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
}

// variant is one way in which the store serves a logical cluster.
type variant struct {
	name string
	// resource decides whether there is a watch cache.
	resource schema.GroupResource
	// target, if any, asks for the view of a physical cluster; every object is
	// visible to it.
	target string
}

var (
	cached   = variant{name: "Cached", resource: schema.GroupResource{Resource: "pods"}}
	uncached = variant{name: "Uncached", resource: schema.GroupResource{Resource: "events"}}
	view     = variant{name: "View", resource: schema.GroupResource{Resource: "pods"}, target: target}
	all      = []variant{cached, uncached, view}
)

// fixture is a store as a registry of one logical cluster sees it. Whatever
// context a test of the suite uses, the scope is in it.
type fixture struct {
	storage.Interface
	variant     variant
	client      *kubernetes.Client
	transformer *transformer
	corrupt     bool
}

// setup changes how a fixture is made.
type setup struct {
	keyFunc  func(runtime.Object) (string, error)
	indexers *cache.Indexers
	codec    runtime.Codec
	// progress is how often etcd sends progress notifications, if not rarely.
	progress time.Duration
	// stockLists leaves consistent lists to upstream's watch cache.
	stockLists bool
	// corrupt lets corrupt objects be deleted, as upstream's factory does by
	// default and its tests of the bare store do not.
	corrupt bool
}

// serially runs a test of the suite in each variant, one after the other: those
// that change feature gates or cannot bear load.
func serially(t *testing.T, variants []variant, run func(*testing.T, *fixture)) {
	t.Helper()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) { run(t, newFixture(t, v, nil)) })
	}
}

// each runs a test of the suite in each variant.
func each(t *testing.T, variants []variant, change func(*setup), run func(*testing.T, *fixture)) {
	t.Helper()
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			run(t, newFixture(t, v, change))
		})
	}
}

func newFixture(t *testing.T, v variant, change func(*setup)) *fixture {
	t.Helper()
	s := setup{
		keyFunc: func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
		codec:   codec,
	}
	if change != nil {
		change(&s)
	}
	etcd := testserver.NewTestConfig(t)
	if s.progress != 0 {
		etcd.WatchProgressNotifyInterval = s.progress
	}
	f := &fixture{variant: v, client: testserver.RunEtcd(t, etcd), transformer: newTransformer(), corrupt: s.corrupt}
	// The suite compares the keys of requests to etcd with those of the stock store.
	recorder := f.client.Kubernetes.(*storagetesting.KubernetesRecorder)
	recorder.Interface = segment{recorder.Interface, "/" + cluster.String()}
	f.client.Kubernetes = unsegment{recorder, "/" + cluster.String()}

	config := storagebackend.NewDefaultConfig(etcdPrefix, s.codec)
	config.Transformer = f.transformer
	getter := ours.NewRESTOptionsGetter(generic.RESTOptions{StorageConfig: config.ForResource(v.resource)}, ours.Options{
		Targets: func(runtime.Object) []string { return []string{target} },
		Raw:     f.raw, StockLists: s.stockLists,
	})
	o, err := getter.GetRESTOptions(v.resource, &example.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	store, destroy, err := o.Decorator(o.StorageConfig, prefix, s.keyFunc,
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		podAttrs, nil, s.indexers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	f.Interface = scoped{store, scope.Scope{Cluster: cluster, Target: v.target}}
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
		return store.ReadinessCheck() == nil, nil
	}); err != nil {
		t.Fatalf("the store did not get ready: %v", err)
	}
	// A view has history from its first list on.
	if err := f.GetList(t.Context(), prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &example.PodList{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// raw is upstream's storage factory with the client and the short leases of the
// fixture.
func (f *fixture) raw(c *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	versioner := storage.APIObjectVersioner{}
	compactor := etcd3.NewCompactor(f.client.Client, 0, clock.RealClock{}, nil)
	leases := c.LeaseManagerConfig
	leases.ReuseDurationSeconds = 1
	transformer, decoder := c.Transformer, etcd3.NewDefaultDecoder(c.Codec, versioner)
	if f.corrupt {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	s, err := etcd3.New(f.client, compactor, c.Codec, newFunc, newListFunc, c.Prefix, resourcePrefix, c.GroupResource,
		transformer, leases, decoder, versioner)
	if err != nil {
		return nil, nil, err
	}
	destroy := func() {
		s.Close()
		compactor.Stop()
	}
	if f.corrupt {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(s, c.GroupResource), destroy, nil
	}
	return s, destroy, nil
}

func podAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod := obj.(*example.Pod)
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
		"spec.restartPolicy": string(pod.Spec.RestartPolicy),
		"status.phase":       string(pod.Status.Phase),
	}, nil
}

// podIndexers are those of the real pods.
func podIndexers(s *setup) {
	s.indexers = &cache.Indexers{
		storage.FieldIndex("spec.nodeName"): func(obj any) ([]string, error) {
			return []string{obj.(*example.Pod).Spec.NodeName}, nil
		},
		storage.FieldIndex("metadata.namespace"): func(obj any) ([]string, error) {
			return []string{obj.(*example.Pod).Namespace}, nil
		},
	}
}

// scoped puts a scope into the context of every request.
type scoped struct {
	storage.Interface
	scope scope.Scope
}

func (s scoped) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.Interface.Create(scope.With(ctx, s.scope), key, obj, out, ttl)
}

func (s scoped) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, o storage.DeleteOptions) error {
	return s.Interface.Delete(scope.With(ctx, s.scope), key, out, pre, validate, cached, o)
}

func (s scoped) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	return s.Interface.Get(scope.With(ctx, s.scope), key, o, out)
}

func (s scoped) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	return s.Interface.GetList(scope.With(ctx, s.scope), key, o, list)
}

func (s scoped) GuaranteedUpdate(ctx context.Context, key string, dest runtime.Object, ignoreNotFound bool, pre *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	return s.Interface.GuaranteedUpdate(scope.With(ctx, s.scope), key, dest, ignoreNotFound, pre, update, cached)
}

func (s scoped) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	return s.Interface.Watch(scope.With(ctx, s.scope), key, o)
}

// transformer is one that tests can replace while the store uses it.
type transformer struct {
	current atomic.Pointer[value.Transformer]
}

func newTransformer() *transformer {
	t := &transformer{}
	t.set(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false))
	return t
}

func (t *transformer) get() value.Transformer { return *t.current.Load() }

func (t *transformer) set(to value.Transformer) (revert func()) {
	old := t.current.Swap(&to)
	return func() { t.current.Store(old) }
}

func (t *transformer) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	return t.get().TransformFromStorage(ctx, data, c)
}

func (t *transformer) TransformToStorage(ctx context.Context, data []byte, c value.Context) ([]byte, error) {
	return t.get().TransformToStorage(ctx, data, c)
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (f *fixture) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	// The store reads through the transformer at any time: change a new one.
	return f.transformer.set(modify(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false)))
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (f *fixture) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return f.transformer.set(modify(f.transformer.get()))
}

// increaseVersion makes etcd's revision go up without an event.
func (f *fixture) increaseVersion(ctx context.Context, t *testing.T) int64 {
	resp, err := f.client.KV.Put(ctx, "increaseRV", "ok")
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// compact compacts etcd and waits until the store has noticed.
func (f *fixture) compact(ctx context.Context, t *testing.T, version string) {
	rv, err := f.Versioner().ParseResourceVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	current, _, _, err := etcd3.Compact(ctx, f.client.Client, 0, int64(rv))
	if err != nil {
		_, _, _, err = etcd3.Compact(ctx, f.client.Client, current, int64(rv))
	}
	if err != nil {
		t.Fatal(err)
	}
	// The watch cache asks every 15 s.
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return f.CompactRevision() == int64(rv), nil
	}); err != nil {
		t.Fatalf("the store did not notice the compaction: %v", err)
	}
}

// stored checks what Create and GuaranteedUpdate wrote to etcd at key.
func (f *fixture) stored(ctx context.Context, t *testing.T, key string) {
	at := etcdPrefix + strings.Replace(key, prefix, prefix+cluster.String()+"/", 1)
	resp, err := f.client.KV.Get(ctx, at)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("reading %s from etcd: %v, %v", at, resp, err)
	}
	obj, err := runtime.Decode(codec, resp.Kvs[0].Value[len(storedPrefix):])
	if err != nil {
		t.Fatalf("decoding what is at %s: %v", at, err)
	}
	pod := obj.(*example.Pod)
	if pod.ResourceVersion != "" {
		t.Errorf("stored with resource version %q", pod.ResourceVersion)
	}
	if got := logicalcluster.From(pod); got != cluster {
		t.Errorf("stored with the logical cluster %q, want %q", got, cluster)
	}
}

// unchecked replaces the checks of the calls that the stock store makes to etcd.
func unchecked(*testing.T, uint64, uint64) {}

// segment and unsegment are around the suite's recorder of requests to etcd, so
// that it sees keys without the logical cluster.
type (
	segment struct {
		kubernetes.Interface
		segment string
	}
	unsegment struct {
		kubernetes.Interface
		segment string
	}
)

func (s segment) List(ctx context.Context, key string, o kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	o.Continue = s.insert(o.Continue)
	return s.Interface.List(ctx, s.insert(key), o)
}

func (s segment) insert(key string) string {
	rest, ok := strings.CutPrefix(key, path.Join(etcdPrefix, prefix)+"/")
	if !ok {
		return key
	}
	return path.Join(etcdPrefix, prefix) + s.segment + "/" + rest
}

func (s unsegment) List(ctx context.Context, key string, o kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	o.Continue = strings.Replace(o.Continue, s.segment, "", 1)
	return s.Interface.List(ctx, strings.Replace(key, s.segment, "", 1), o)
}

// observed returns a store whose Create returns when the watch cache has the
// object, as some tests of the suite need.
func observed(f *fixture) storage.Interface {
	if f.variant == uncached {
		return f
	}
	return waiting{f}
}

type waiting struct{ storage.Interface }

func (w waiting) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := w.Interface.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	created, err := w.Versioner().ObjectResourceVersion(out)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, wait.ForeverTestTimeout, true, func(ctx context.Context) (bool, error) {
		seen := &example.Pod{}
		if err := w.Get(ctx, key, storage.GetOptions{ResourceVersion: "0", IgnoreNotFound: true}, seen); err != nil {
			return false, err
		}
		rv, err := w.Versioner().ObjectResourceVersion(seen)
		return err == nil && rv >= created, nil
	})
}

// bare hides the annotation of the logical cluster, for tests of the suite that
// compare what they read with what they made up, not with what they wrote.
func bare(f *fixture) *fixture {
	hidden := *f
	hidden.Interface = hiding{f.Interface}
	return &hidden
}

type hiding struct{ storage.Interface }

func hide(obj *example.Pod) {
	if delete(obj.Annotations, logicalcluster.AnnotationKey); len(obj.Annotations) == 0 {
		obj.Annotations = nil
	}
}

func (h hiding) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	err := h.Interface.Create(ctx, key, obj.DeepCopyObject(), out, ttl)
	if pod, ok := out.(*example.Pod); ok {
		hide(pod)
	}
	return err
}

func (h hiding) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	read := &example.Pod{}
	err := h.Interface.Get(ctx, key, o, read)
	read.DeepCopyInto(out.(*example.Pod)) // what came from the watch cache is shared with it
	hide(out.(*example.Pod))
	return err
}

func (h hiding) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	read := &example.PodList{}
	err := h.Interface.GetList(ctx, key, o, read)
	out := list.(*example.PodList)
	read.DeepCopyInto(out)
	for i := range out.Items {
		hide(&out.Items[i])
	}
	return err
}

func (h hiding) GuaranteedUpdate(ctx context.Context, key string, dest runtime.Object, ignoreNotFound bool, pre *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	err := h.Interface.GuaranteedUpdate(ctx, key, dest, ignoreNotFound, pre, func(in runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		hide(in.(*example.Pod))
		return update(in, m)
	}, cached)
	hide(dest.(*example.Pod))
	return err
}
