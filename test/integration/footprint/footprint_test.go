// Package footprint bounds what a server holds that nobody uses. It is a package of
// its own: the figures are those of the whole process.
package footprint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// The bounds leave a tenth for what comes and goes; `make bench` has the figures.
const (
	mostGoroutines = 1000
	mostHeap       = 50 << 20
	// mostConnections are those of the storages and of what watches etcd's health.
	mostConnections = 8
)

func TestAnEmptyServerIsSmall(t *testing.T) {
	goroutines, heap := runtime.NumGoroutine(), heapNow()
	server.Start(t)

	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine()-goroutines > mostGoroutines && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	if n := runtime.NumGoroutine() - goroutines; n > mostGoroutines {
		t.Errorf("%d goroutines, at most %d", n, mostGoroutines)
	}
	if n := int64(heapNow()) - int64(heap); n > mostHeap {
		t.Errorf("%d MiB of heap, at most %d", n>>20, mostHeap>>20)
	}
	if n := count(t, "transport.(*http2Client).reader"); n == 0 || n > mostConnections {
		t.Errorf("%d connections to etcd, at most %d", n, mostConnections)
	}
}

// heapNow is what is reachable.
func heapNow() uint64 {
	for range 3 { // finalizers and pools hold some of it for a collection or two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// count is how many goroutines are in a function.
func count(t *testing.T, function string) int {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	return bytes.Count(stacks.Bytes(), []byte(function+"("))
}

// TestAWatchKeepsNothingOfALargeObject: a tenant has thousands of watches, and an object may have more than a MiB, which
// each of them is sent when it begins.
func TestAWatchKeepsNothingOfALargeObject(t *testing.T) {
	const watches, size, most = 100, 1 << 20, 256 << 10
	s := server.Start(t)
	ctx := s.NewCluster(t, "shop")
	config := scope.ScopedConfig(rest.CopyConfig(s.Config))
	config.ContentType = apiruntime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"a": strings.Repeat("x", size-1000)}}
	if _, err := kube.CoreV1().ConfigMaps("default").Create(ctx, large, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := heapNow()
	var got atomic.Int64
	for range watches {
		body, err := kube.CoreV1().RESTClient().Get().Namespace("default").Resource("configmaps").
			Param("watch", "1").Param("resourceVersion", "0").Param("fieldSelector", "metadata.name=large").Stream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			buffer := make([]byte, 4<<10)
			for {
				n, err := body.Read(buffer)
				if got.Add(int64(n)); err != nil {
					return
				}
			}
		})
		t.Cleanup(func() { _ = body.Close(); all.Wait() })
	}
	server.Eventually(t, time.Minute, "all watches have the object", func() error {
		if n := got.Load(); n < watches*(size-1000) {
			return fmt.Errorf("%d bytes only", n)
		}
		return nil
	})
	if each := (int64(heapNow()) - int64(before)) / watches; each > most {
		t.Errorf("each watch takes %d KiB, at most %d", each>>10, most>>10)
	} else {
		t.Logf("each watch takes %d KiB", each>>10)
	}
}

// TestWatchesOfLargeCustomResourcesCountForWhatTheyKeep: upstream keeps the largest object twice for each.
func TestWatchesOfLargeCustomResourcesCountForWhatTheyKeep(t *testing.T) {
	s := server.Start(t)
	ctx := s.NewCluster(t, "shop")
	limit := []byte(`{"spec":{"limits":{"watches":100}}}`)
	if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Patch(server.InRoot(t), "shop", types.MergePatchType, limit, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := definition.UnmarshalJSON([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
		"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	large := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "large"}, "text": strings.Repeat("x", 1<<20),
	}}
	server.Eventually(t, time.Minute, "the definition is served", func() error {
		_, err := s.Dynamic.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}).Namespace("default").Create(ctx, large, metav1.CreateOptions{})
		return err
	})
	ann := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ann"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(ctx, ann, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := scope.ScopedConfig(rest.CopyConfig(s.Config))
	config.Impersonate.UserName = "ann" // the limit is one of users
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const things = "/apis/example.com/v1/namespaces/default/things"
	server.Eventually(t, time.Minute, "ann may watch", func() error {
		return kube.CoreV1().RESTClient().Get().AbsPath(things).Param("watch", "1").Param("timeoutSeconds", "1").Do(ctx).Error()
	})
	watched := func() <-chan error {
		body, err := kube.CoreV1().RESTClient().Get().AbsPath(things).Param("watch", "1").Param("resourceVersion", "0").Stream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		event, ended := make(chan error, 1), make(chan error, 1)
		t.Cleanup(func() { _ = body.Close() })
		go func() {
			lines := bufio.NewReaderSize(body, 4<<10)
			_, err := lines.ReadString('\n')
			event <- err
			last, err := lines.ReadString('\n')
			if !strings.Contains(last, `"ERROR"`) || !strings.Contains(last, "spec.limits.watches") {
				ended <- fmt.Errorf("its last event is %q (%v)", last, err)
				return
			}
			_, err = lines.ReadString('\n')
			ended <- err
		}()
		if err := <-event; err != nil {
			t.Fatal("the object did not come: ", err)
		}
		return ended
	}
	first := []<-chan error{watched(), watched(), watched()} // each counts for 33
	select {
	case err := <-watched():
		if !errors.Is(err, io.EOF) {
			t.Errorf("the fourth ended by %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a fourth watch goes on, which keeps more than there is room for")
	}
	for _, w := range first {
		select {
		case err := <-w:
			t.Errorf("a watch within the limit ended: %v", err)
		default:
		}
	}
}
