package storage

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

func TestWhatIsForgottenOfThePast(t *testing.T) {
	t.Parallel()
	const window = time.Minute
	now := time.Unix(10_000, 0)
	for _, c := range []struct {
		name  string
		large int64
		age   time.Duration // of the last event; negative: there was none
		want  bool
	}{
		{"small values", pastBytes - 1, time.Hour, false},
		{"nothing happened", pastBytes, -1, false},
		{"one that comes now would find those that say nothing young", pastBytes, 2*window + time.Second, false},
		{"all are old", pastBytes, 2*window + 2*time.Second, true},
	} {
		p := past{window: window, large: &atomic.Int64{}}
		p.large.Store(c.large)
		if c.age >= 0 {
			p.last = now.Add(-c.age)
		}
		last := p.last
		at, got := p.forget(now)
		if got != c.want {
			t.Errorf("%s: forgotten: %v, want %v", c.name, got, c.want)
		}
		if got && (at.Sub(last) <= window || now.Sub(at) <= window) {
			t.Errorf("%s: recorded %s after the last one and %s ago, want both to be more than %s", c.name, at.Sub(last), now.Sub(at), window)
		}
		if _, again := p.forget(now); again {
			t.Errorf("%s: forgotten once more at once", c.name)
		}
		if c.want && p.large.Load() != 0 {
			t.Errorf("%s: %d bytes are still counted", c.name, p.large.Load())
		}
	}
}

func TestLargeValuesThatAreReadAreCounted(t *testing.T) {
	t.Parallel()
	r := &resource{}
	c := r.weighed(&storagebackend.ConfigForResource{})
	for _, size := range []int{largeValue - 1, largeValue, 3 * largeValue} {
		data := []byte(strings.Repeat("x", size))
		if out, _, err := c.Transformer.TransformFromStorage(t.Context(), data, value.DefaultContext("key")); err != nil || len(out) != size {
			t.Errorf("%d bytes became %d: %v", size, len(out), err)
		}
	}
	if n := r.large.Load(); n != 4*largeValue {
		t.Errorf("%d bytes are counted, want %d", n, 4*largeValue)
	}
}

// podResource is one without a database.
func podResource() (*resource, *storagebackend.ConfigForResource) {
	r := &resource{
		gr: schema.GroupResource{Resource: "pods"}, keys: keys{prefix: "/pods"},
		keyFunc:   func(obj apiruntime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		baseAttrs: storage.DefaultNamespaceScopedAttr, targets: TargetsOf, sharer: newSharer(&sharing.Maps{}),
		newFunc: func() apiruntime.Object { return &example.Pod{} }, newListFunc: func() apiruntime.Object { return &example.PodList{} },
	}
	known := apiruntime.NewScheme()
	utilruntime.Must(errors.Join(example.AddToScheme(known), examplev1.AddToScheme(known)))
	return r, storagebackend.NewDefaultConfig("/registry", serializer.NewCodecFactory(known).LegacyCodec(examplev1.SchemeGroupVersion)).ForResource(r.gr)
}

// quiet is a storage without objects, of which a test sends the events.
type quiet struct {
	storage.Interface
	events *watch.FakeWatcher
	asked  atomic.Int64 // bookmarks
}

func (q *quiet) GetList(_ context.Context, _ string, _ storage.ListOptions, list apiruntime.Object) error {
	list.(*example.PodList).ResourceVersion = "100"
	return nil
}

func (q *quiet) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return q.events, nil
}

func (q *quiet) EnableResourceSizeEstimation(storage.KeysFunc) error       { return nil }
func (q *quiet) CompactRevision() int64                                    { return 0 }
func (q *quiet) GetCurrentResourceVersion(context.Context) (uint64, error) { return 100, nil }

func (q *quiet) RequestWatchProgress(context.Context) error {
	q.asked.Add(1)
	return nil
}

// A watch cache grows in storms of small events. What was large goes all the same, the second and the third time as
// well, and neither to forget nor what happens right afterwards makes it grow.
func TestAWatchCacheForgetsAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const objects, storm = 60, 3000
		c, r, q := newQuietCache(t)
		defer c.stop()
		version := 100
		pod := func(name string) *example.Pod {
			version++
			return &example.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "default", ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{"kcp.io/cluster": "a"},
			}}
		}
		var gone atomic.Int64
		large := func(name string) *example.Pod {
			p := pod(name)
			runtime.AddCleanup(p, func(struct{}) { gone.Add(1) }, struct{}{})
			return p
		}
		for round := range 3 {
			for range storm {
				q.events.Add(pod("small"))
				q.events.Delete(pod("small"))
			}
			r.large.Store(pastBytes)
			for i := range objects {
				q.events.Add(large(fmt.Sprint("pod-", i)))
			}
			for i := range objects {
				q.events.Delete(large(fmt.Sprint("pod-", i)))
			}
			synctest.Wait()
			grown := c.kept()
			if grown < 2*storm {
				t.Fatalf("round %d: the watch cache keeps %d events, so this test finds nothing", round, grown)
			}
			asked := q.asked.Load()
			time.Sleep(2 * (cacher.DefaultEventFreshDuration + time.Second))
			if synctest.Wait(); q.asked.Load() == asked {
				t.Fatalf("round %d: nobody asks for a bookmark", round)
			}
			version++
			q.events.Action(watch.Bookmark, &example.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(version)}})
			synctest.Wait()
			// Where the last events went is remembered elsewhere until there are others.
			want := int64(2*objects*(round+1) - 4)
			for tries := 0; gone.Load() < want && tries < 100; tries++ {
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			if gone.Load() < want {
				t.Errorf("round %d: %d of %d objects went", round, gone.Load(), want)
			}
			forgot := c.kept()
			if forgot > grown {
				t.Errorf("round %d: the watch cache keeps %d events, %d before", round, forgot, grown)
			}
			q.events.Add(pod("after"))
			q.events.Delete(pod("after"))
			if synctest.Wait(); c.kept() > max(forgot/2, pastKept) {
				t.Errorf("round %d: the watch cache keeps %d events when something happens after it has forgotten, %d before", round, c.kept(), forgot)
			}
		}
		q.events.Stop()
	})
}

// timed is an event of a time.
type timed struct {
	*example.Pod
	at time.Time
}

func (o *timed) RecordTime() time.Time     { return o.at }
func (o *timed) Unwrap() apiruntime.Object { return o.Pod }

// newQuietCache is a watch cache of q, which is ready. Who makes it in a bubble of synctest stops it there.
func newQuietCache(t *testing.T) (c *watchCache, r *resource, q *quiet) {
	t.Helper()
	r, config := podResource()
	q = &quiet{events: watch.NewFake()}
	c, err := newWatchCache(config, r, nil, q, &recentObjects{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return c, r, q
}

func nameOf(e watch.Event) string {
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return err.Error()
	}
	return m.GetName()
}

// Upstream's watch cache keeps a hundred events with the objects before and after them: when the
// bookmark of a quiet minute comes, they go, and nobody who watches misses anything.
func TestAWatchCacheForgetsWhatWasLargeAndLongAgo(t *testing.T) {
	t.Parallel()
	const objects = 60
	for _, read := range []struct {
		large int64
		storm int // of small events before, by which the watch cache has grown
	}{{0, 0}, {pastBytes, 0}, {pastBytes, 500}} {
		large := read.large
		t.Run(fmt.Sprint(large, " bytes were read, ", read.storm, " events before"), func(t *testing.T) {
			t.Parallel()
			r, config := podResource()
			q := &quiet{events: watch.NewFake()}
			c, err := newWatchCache(config, r, nil, q, &recentObjects{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer c.stop()
			if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
				return c.ReadinessCheck() == nil, nil
			}); err != nil {
				t.Fatal(err)
			}
			everything := func(version string) (watch.Interface, error) {
				p := storage.Everything
				p.AllowWatchBookmarks = true
				return c.Watch(t.Context(), "/pods/", storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: p})
			}
			running, err := everything("100")
			if err != nil {
				t.Fatal(err)
			}
			defer running.Stop()
			var gone atomic.Int64
			long := time.Now().Add(-3 * cacher.DefaultEventFreshDuration)
			version := 100
			pod := func(i int) *timed {
				version++
				p := &example.Pod{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprint("pod-", i), Namespace: "default", ResourceVersion: fmt.Sprint(version),
					Annotations: map[string]string{"kcp.io/cluster": "a"},
				}}
				runtime.AddCleanup(p, func(struct{}) { gone.Add(1) }, struct{}{})
				return &timed{p, long}
			}
			saw := func(want watch.EventType, name string) {
				t.Helper()
				select {
				case e := <-running.ResultChan():
					if want != "" && e.Type != want || name != "" && nameOf(e) != name {
						t.Fatalf("the watch saw %v, want %s of %s", e, want, name)
					}
				case <-time.After(30 * time.Second):
					t.Fatalf("the watch saw no %s of %s", want, name)
				}
			}
			for i := range read.storm {
				version++
				p := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: "default", ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{"kcp.io/cluster": "a"}}}
				if i == 0 {
					q.events.Add(&timed{p, long})
				} else {
					q.events.Modify(&timed{p, long})
				}
				saw("", "small")
			}
			r.large.Store(large)
			for i := range objects {
				q.events.Add(pod(i))
				saw(watch.Added, fmt.Sprint("pod-", i))
			}
			for i := range objects {
				q.events.Delete(pod(i))
				saw(watch.Deleted, fmt.Sprint("pod-", i))
			}
			if large > 0 { // what is old may go
				for began := time.Now(); q.asked.Load() == 0; time.Sleep(time.Millisecond) {
					if time.Since(began) > 30*time.Second {
						t.Fatal("nobody asks for a bookmark")
					}
				}
			} else if n := q.asked.Load(); n > 0 {
				t.Errorf("%d bookmarks are asked for although nothing is large", n)
			}
			for _, at := range []string{"999", "1000"} { // the first one may be that of the last event
				q.events.Action(watch.Bookmark, &example.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: at}})
			}
			last := &timed{&example.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last", Namespace: "default", ResourceVersion: "1001"}}, time.Now()}
			q.events.Add(last)
			// Bookmarks come once a second at most.
			for e := range running.ResultChan() {
				if e.Type != watch.Bookmark {
					if e.Type != watch.Added || nameOf(e) != "last" {
						t.Fatalf("the watch saw %v, want the last pod", e)
					}
					break
				}
			}
			forgotten := func(context.Context) (bool, error) {
				runtime.GC()
				return gone.Load() >= 2*objects-4, nil // a watch and its queue hold the last ones that they sent
			}
			late, err := everything(fmt.Sprint(version - 1))
			if err == nil {
				e := <-late.ResultChan()
				late.Stop()
				err = apierrors.FromObject(e.Object)
			}
			if large == 0 {
				if apierrors.IsResourceExpired(err) {
					t.Errorf("a watch of before the last event: %v", err)
				}
				if wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 500*time.Millisecond, true, forgotten) == nil {
					t.Error("events went that were not worth it, so this test finds nothing")
				}
				return
			}
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("a watch of before what is forgotten misses an event: %v", err)
			}
			if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, forgotten); err != nil {
				t.Errorf("%d of %d objects went: %v", gone.Load(), 2*objects, err)
			}
			since, err := everything("1000")
			if err != nil {
				t.Fatal(err)
			}
			defer since.Stop()
			if e := <-since.ResultChan(); e.Type != watch.Added || nameOf(e) != "last" {
				t.Errorf("a watch since the bookmark sees %v, want the last pod", e)
			}
		})
	}
}
