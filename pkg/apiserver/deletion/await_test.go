package deletion

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	services = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

func service(finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "10", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: finalizers,
			Annotations: map[string]string{logicalcluster.AnnotationKey: "demo"},
		},
	}
}

// world is a server with one Service or Pod, whose informers run.
type world struct {
	client *metadatafake.FakeMetadataClient
	waiter *Waiter
}

func newWorld(t *testing.T, obj *metav1.PartialObjectMetadata) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{client: metadatafake.NewSimpleMetadataClient(scheme, obj)}
	w.waiter = &Waiter{kinds: workload.Builtin(), client: w.client, waiters: newWaiters()}
	objects := controller.NewMetadata(w.client, []schema.GroupVersionResource{services, pods}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { objects.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := objects.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	w.waiter.Follow(objects)
	synctest.Wait() // until the informer watches
	w.client.ClearActions()
	return w
}

// remove makes a request that deletes Services and returns how long its answer took,
// and how often the server was asked. Meanwhile happens after a tenth of a second.
func (w *world) remove(ctx context.Context, by user.Info, verb string, meanwhile func()) (took time.Duration, requests int) {
	handler := w.waiter.With(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		time.AfterFunc(delay, meanwhile)
		rw.WriteHeader(http.StatusOK)
	}))
	info := &request.RequestInfo{IsResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: "services", Namespace: "shop", Name: "web"}
	ctx = request.WithUser(request.WithRequestInfo(scope.WithCluster(ctx, "demo"), info), by)
	began := time.Now()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodDelete, "/api/v1/namespaces/shop/services", nil))
	took = time.Since(began)
	for _, a := range w.client.Actions() {
		if a.GetVerb() == "get" || a.GetVerb() == "list" {
			requests++
		}
	}
	return took, requests
}

const delay = 100 * time.Millisecond

var alice = &user.DefaultInfo{Name: "alice"}

func TestTheAnswerToADeletionComesWhenTheObjectIsGone(t *testing.T) {
	system := &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	live := service(placementv1alpha1.CopiesFinalizer)
	live.DeletionTimestamp = nil
	for name, c := range map[string]struct {
		by       user.Info
		verb     string
		obj      *metav1.PartialObjectMetadata
		waits    bool
		requests int
	}{
		"one object":                     {alice, "delete", service(placementv1alpha1.CopiesFinalizer), true, 1},
		"a collection":                   {alice, "deletecollection", service(placementv1alpha1.CopiesFinalizer), true, 1},
		"held by others, too":            {alice, "delete", service(placementv1alpha1.CopiesFinalizer, "example.org/x"), false, 1},
		"deleted in the foreground":      {alice, "delete", service(metav1.FinalizerDeleteDependents, placementv1alpha1.CopiesFinalizer), false, 1},
		"alive, of the same name":        {alice, "delete", live, false, 1},
		"deleted by the server itself":   {system, "delete", service(placementv1alpha1.CopiesFinalizer), false, 0},
		"something else than a deletion": {alice, "update", service(placementv1alpha1.CopiesFinalizer), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.obj)
				took, requests := w.remove(t.Context(), c.by, c.verb, func() { _ = w.client.Tracker().Delete(services, "shop", "web") })
				want := time.Duration(0)
				if c.waits {
					want = delay
				}
				if took != want || requests != c.requests {
					t.Errorf("answered after %s and %d requests, want %s and %d", took, requests, want, c.requests)
				}
			})
		})
	}
}

func TestTheAnswerComesWhenSomebodyElseHoldsTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, service(placementv1alpha1.CopiesFinalizer))
		took, _ := w.remove(t.Context(), alice, "delete", func() {
			obj := service("example.org/x")
			obj.ResourceVersion = "11"
			_ = w.client.Tracker().Update(services, obj, "shop")
		})
		if took != delay {
			t.Errorf("answered after %s", took)
		}
	})
}

// A physical cluster that is silent costs a wait and one request, not two hundred.
func TestAnAnswerDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, service(placementv1alpha1.CopiesFinalizer))
		if took, requests := w.remove(t.Context(), alice, "delete", func() {}); took != waitTimeout || requests != 1 {
			t.Errorf("answered after %s and %d requests", took, requests)
		}
		if s := w.waiter.waiters; s.all != 0 || len(s.cluster) != 0 || len(s.at) != 0 {
			t.Errorf("something is left of those who waited: %+v", s)
		}
	})
}

func TestAWaitEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, service(placementv1alpha1.CopiesFinalizer))
		ctx, leave := context.WithCancel(t.Context())
		if took, _ := w.remove(ctx, alice, "delete", leave); took != delay {
			t.Errorf("answered after %s", took)
		}
	})
}

func TestOnlySoManyAnswersWait(t *testing.T) {
	t.Parallel()
	s := newWaiters()
	at := func(cluster logicalcluster.Name) place { return place{cluster, services.GroupResource(), "shop"} }
	if s.add(at("shop")) != nil {
		t.Error("an answer waits although nobody notifies it")
	}
	s.followed = true
	var last *waiter
	for i := range maxWaitingInCluster {
		if last = s.add(at("shop")); last == nil {
			t.Fatalf("number %d does not wait", i+1)
		}
	}
	if s.add(at("shop")) != nil {
		t.Error("too many wait in one logical cluster")
	}
	if s.add(at("demo")) == nil {
		t.Error("another logical cluster pays for it")
	}
	s.remove(at("shop"), last)
	if s.add(at("shop")) == nil {
		t.Error("nobody waits where one has gone")
	}
}

// What informers say between the deletion and the look at what is left counts.
func TestNothingIsMissedBeforeItIsKnownWhatToWaitFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version uint64
		done    bool
	}{"gone meanwhile": {gone, true}, "released meanwhile": {11, true}, "an older version without us": {9, false}} {
		s := newWaiters()
		s.followed = true
		w := s.add(place{})
		w.release("u", c.version)
		w.await([]metav1.PartialObjectMetadata{*service(placementv1alpha1.CopiesFinalizer)})
		select {
		case <-w.done:
			if !c.done {
				t.Errorf("%s: the wait is over", name)
			}
		default:
			if c.done {
				t.Errorf("%s: it still waits", name)
			}
		}
	}
}
