package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

const sweeper = "system:serviceaccount:kube-system:namespace-controller"

// larder is what an extension server keeps in namespaces: baskets.
type larder struct {
	*extension
	verbs metav1.Verbs

	mu sync.Mutex
	// baskets are the names in each namespace.
	baskets map[string][]string
	// finalizer, if not empty, keeps what is deleted; refuse answers deletions.
	finalizer string
	refuse    http.HandlerFunc
}

// startLarder registers one in the logical cluster of ctx.
func startLarder(ctx context.Context, t *testing.T, s *server.Server, group string, verbs ...string) *larder {
	t.Helper()
	l := &larder{extension: startExtension(t, group), verbs: append(metav1.Verbs{"get", "list", "create", "delete"}, verbs...), baskets: map[string][]string{}}
	l.answers(l.serve)
	l.register(ctx, t, s, "127.0.0.1")
	awaitAvailable(ctx, t, s, group, "True", "Passed")
	l.trusts(ctx, t, s.Kube)
	return l
}

func (l *larder) serve(w http.ResponseWriter, req *http.Request) {
	if l.user(req) == "" {
		http.Error(w, "nobody that I know speaks for users", http.StatusUnauthorized)
		return
	}
	prefix := "/apis/" + l.group + "/v1"
	if req.URL.Path == prefix {
		answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: l.group + "/v1",
			APIResources: []metav1.APIResource{{Name: "baskets", Kind: "Basket", Namespaced: true, Verbs: l.verbs}}})
		return
	}
	rest, ok := strings.CutPrefix(req.URL.Path, prefix+"/namespaces/")
	if !ok {
		http.NotFound(w, req)
		return
	}
	namespace, rest, _ := strings.Cut(rest, "/")
	name := strings.Trim(strings.TrimPrefix(rest, "baskets"), "/")
	l.mu.Lock()
	refuse := l.refuse
	l.mu.Unlock()
	if refuse != nil && req.Method == http.MethodDelete {
		refuse(w, req)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.Method == http.MethodDelete && l.finalizer == "" {
		l.baskets[namespace] = slices.DeleteFunc(l.baskets[namespace], func(n string) bool { return name == "" || n == name })
	}
	l.list(w, namespace, req.URL.Query().Get("continue"))
}

// list answers with two at a time.
func (l *larder) list(w http.ResponseWriter, namespace, after string) {
	items, next := []any{}, ""
	for _, name := range l.baskets[namespace] {
		if name <= after {
			continue
		}
		if len(items) == 2 {
			next = items[1].(map[string]any)["metadata"].(map[string]any)["name"].(string)
			break
		}
		meta := map[string]any{"name": name, "namespace": namespace, "uid": "uid-" + name}
		if l.finalizer != "" {
			meta["finalizers"] = []string{l.finalizer}
		}
		items = append(items, map[string]any{"apiVersion": l.group + "/v1", "kind": "Basket", "metadata": meta})
	}
	answer(w, map[string]any{"apiVersion": l.group + "/v1", "kind": "BasketList", "metadata": map[string]any{"continue": next}, "items": items})
}

func (l *larder) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func makeNamespace(ctx context.Context, t *testing.T, s *server.Server, name string) {
	t.Helper()
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func deleteNamespace(ctx context.Context, t *testing.T, s *server.Server, name string) {
	t.Helper()
	if err := s.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitNoNamespace(ctx context.Context, t *testing.T, s *server.Server, name string, within time.Duration) {
	t.Helper()
	server.Eventually(t, within, "namespace "+name+" goes", func() error {
		ns, err := s.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v, %v", ns.Status.Conditions, err)
	})
}

// awaitHeld waits for a condition of a namespace that is being deleted.
func awaitHeld(ctx context.Context, t *testing.T, s *server.Server, name string, kind corev1.NamespaceConditionType, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("namespace %s says %s", name, kind), func() error {
		ns, err := s.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range ns.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("it says %v", ns.Status.Conditions)
	})
}

func awaitNoLogicalCluster(t *testing.T, s *server.Server, name string) {
	t.Helper()
	root := scope.WithCluster(t.Context(), scope.Root)
	if err := s.Atoll.TenancyV1alpha1().LogicalClusters().Delete(root, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 20*time.Second, "the logical cluster goes", func() error {
		if lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(root, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v, %v", lc.Status.Conditions, err)
		}
		return nil
	})
}

func TestWhatAnAggregatedServerKeepsGoesWithItsNamespace(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for title, verbs := range map[string][]string{"as a collection": {"deletecollection"}, "one by one": nil} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			cluster := "larder-" + strings.ReplaceAll(title, " ", "-")
			own := s.NewCluster(t, cluster)
			makeNamespace(own, t, s, "web")
			makeNamespace(own, t, s, "kept")
			l := startLarder(own, t, s, cluster+".example.org", verbs...)
			l.set(func() { l.baskets = map[string][]string{"web": {"a", "b", "c", "d", "e"}, "kept": {"f"}} })
			deleteNamespace(own, t, s, "web")
			awaitNoNamespace(own, t, s, "web", time.Minute)
			l.set(func() {
				if diff := cmp.Diff(map[string][]string{"web": {}, "kept": {"f"}}, l.baskets); diff != "" {
					t.Error(diff)
				}
			})
			deletions := 0
			for _, req := range l.requests(sweeper) {
				if req.Method == http.MethodDelete {
					deletions++
				}
				if name := req.TLS.PeerCertificates[0].Subject.CommonName; name != "atoll-front-proxy:"+cluster || !slices.Contains(req.Header.Values("X-Remote-Group"), "system:masters") {
					t.Errorf("%s asks, in the groups %v", name, req.Header.Values("X-Remote-Group"))
				}
			}
			if want := map[bool]int{true: 1, false: 5}[len(verbs) > 0]; deletions != want {
				t.Errorf("%d deletions were asked for, want %d", deletions, want)
			}
		})
	}
}

// What Kubernetes itself answers to a sweep: the server is a logical cluster with a
// definition.
func TestAServerOfKubernetesIsEmptied(t *testing.T) {
	t.Parallel()
	s := shared(t)
	backing := s.NewCluster(t, "backing")
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for title, verbs := range map[string]metav1.Verbs{"together": {"list", "delete", "deletecollection"}, "singly": {"list", "delete"}} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			own, group := s.NewCluster(t, "front-"+title), title+".example.org"
			makeNamespace(own, t, s, title)
			makeNamespace(backing, t, s, title)
			keep := true
			definitions := clientset.NewForConfigOrDie(scope.ScopedConfig(s.Config)).ApiextensionsV1().CustomResourceDefinitions()
			if _, err := definitions.Create(backing, &apiextensionsv1.CustomResourceDefinition{
				ObjectMeta: metav1.ObjectMeta{Name: "baskets." + group},
				Spec: apiextensionsv1.CustomResourceDefinitionSpec{
					Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "baskets", Kind: "Basket"},
					Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
						OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}}},
				},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			e := startExtension(t, group)
			baskets := s.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "baskets"}).Namespace(title)
			for i := range 250 {
				obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Basket", "metadata": map[string]any{"name": fmt.Sprintf("b%03d", i)}}}
				if i == 200 {
					obj.SetFinalizers([]string{"example.org/wait"})
				}
				if _, err := baskets.Create(backing, obj, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			proxy := &httputil.ReverseProxy{Transport: client.Transport, Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(at)
				r.Out.URL.Path = "/clusters/backing" + r.In.URL.Path
				for name := range r.Out.Header {
					if strings.HasPrefix(name, "X-Remote-") {
						r.Out.Header.Del(name)
					}
				}
			}}
			e.answers(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/apis/"+group+"/v1" {
					answer(w, metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "baskets", Kind: "Basket", Namespaced: true, Verbs: verbs}}})
					return
				}
				proxy.ServeHTTP(w, req)
			})
			e.register(own, t, s, "127.0.0.1")
			awaitAvailable(own, t, s, group, "True", "Passed")
			deleteNamespace(own, t, s, title)
			awaitHeld(own, t, s, title, corev1.NamespaceFinalizersRemaining, "example.org/wait in 1 resource instances")
			awaitHeld(own, t, s, title, corev1.NamespaceContentRemaining, "baskets."+group+" has 1 resource instances")
			if _, err := baskets.Patch(backing, "b200", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			awaitNoNamespace(own, t, s, title, time.Minute)
			if list, err := baskets.List(backing, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
				t.Errorf("%d are left, %v", len(list.Items), err)
			}
		})
	}
}

func TestANamespaceSaysWhatAnAggregatedServerDoesNotLetGo(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "rest")
	makeNamespace(own, t, s, "web")
	l := startLarder(own, t, s, "rest.example.org", "deletecollection")
	l.set(func() {
		l.baskets["web"] = []string{"a", "b"}
		l.refuse = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{Message: "not today"})
		}
	})
	if _, err := s.Kube.CoreV1().ConfigMaps("web").Create(own, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deleteNamespace(own, t, s, "web")
	awaitHeld(own, t, s, "web", corev1.NamespaceDeletionContentFailure, "baskets.rest.example.org: DELETE is answered 403: not today")
	if list, err := s.Kube.CoreV1().ConfigMaps("web").List(own, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("what the server itself keeps: %v, %v", list, err)
	}
	l.set(func() { l.refuse, l.finalizer = nil, "example.org/wait" })
	awaitHeld(own, t, s, "web", corev1.NamespaceContentRemaining, "baskets.rest.example.org has 2 resource instances")
	awaitHeld(own, t, s, "web", corev1.NamespaceFinalizersRemaining, "example.org/wait in 2 resource instances")
	l.set(func() { l.finalizer = "" })
	awaitNoNamespace(own, t, s, "web", time.Minute)
}

func TestAnAggregatedServerIsAskedWhenThePodsAreGone(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "order")
	makeNamespace(own, t, s, "web")
	l := startLarder(own, t, s, "order.example.org", "deletecollection")
	l.set(func() { l.baskets["web"] = []string{"a"} })
	pod, err := s.Kube.CoreV1().Pods("web").Create(own, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.org/wait"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleteNamespace(own, t, s, "web")
	eventually(t, "the pod is deleted", func() error {
		if pod, err = s.Kube.CoreV1().Pods("web").Get(own, "a", metav1.GetOptions{}); err != nil || pod.DeletionTimestamp == nil {
			return fmt.Errorf("it is not: %v", err)
		}
		return nil
	})
	if n := len(l.requests(sweeper)); n != 0 {
		t.Errorf("%d requests came while there was a pod", n)
	}
	l.set(func() {
		if diff := cmp.Diff([]string{"a"}, l.baskets["web"]); diff != "" {
			t.Error(diff)
		}
	})
	if _, err := s.Kube.CoreV1().Pods("web").Patch(own, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitNoNamespace(own, t, s, "web", time.Minute)
	l.set(func() {
		if diff := cmp.Diff([]string{}, l.baskets["web"]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestANamespaceWithTheServiceOfItsOwnServerGoes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "home")
	makeNamespace(own, t, s, "web")
	l := startLarder(own, t, s, "home.example.org", "deletecollection")
	create(own, t, s, services, map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "home", "namespace": "web"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "127.0.0.1"},
	})
	if _, err := s.Dynamic.Resource(apiServices).Patch(own, "v1."+l.group, types.MergePatchType, []byte(`{"spec":{"service":{"namespace":"web","name":"home"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is asked at its new place", func() error {
		if status, _, _, err := availability(own, s, "v1."+l.group); err != nil || status != "True" {
			return fmt.Errorf("available=%s, %v", status, err)
		}
		return nil
	})
	l.set(func() { l.baskets["web"] = []string{"a"} })
	deleteNamespace(own, t, s, "web")
	awaitNoNamespace(own, t, s, "web", time.Minute)
	l.set(func() {
		if diff := cmp.Diff([]string{}, l.baskets["web"]); diff != "" {
			t.Error(diff)
		}
	})
	awaitAvailable(own, t, s, l.group, "False", "ServiceNotFound")
}

func TestAnUnavailableServerHoldsANamespaceUntilItAnswersOrItsAPIServiceGoes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for title, release := range map[string]func(context.Context, *larder) error{
		"answers": func(_ context.Context, l *larder) error { l.answers(l.serve); return nil },
		"goes": func(ctx context.Context, l *larder) error {
			return s.Dynamic.Resource(apiServices).Delete(ctx, "v1."+l.group, metav1.DeleteOptions{})
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			own := s.NewCluster(t, "unknown-"+title)
			group := title + ".unknown.example.org"
			l := startLarder(own, t, s, group, "deletecollection")
			l.set(func() { l.baskets["web"] = []string{"a"} })
			l.answers(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusInternalServerError) })
			if err := tick(own, s, l.extension, 1); err != nil {
				t.Fatal(err)
			}
			awaitAvailable(own, t, s, group, "False", "FailedDiscoveryCheck")
			makeNamespace(own, t, s, "web")
			deleteNamespace(own, t, s, "web")
			awaitHeld(own, t, s, "web", corev1.NamespaceDeletionDiscoveryFailure, fmt.Sprintf(
				"Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: %s/v1: stale GroupVersion discovery: %[1]s/v1", group))
			if err := release(own, l); err != nil {
				t.Fatal(err)
			}
			awaitNoNamespace(own, t, s, "web", 45*time.Second)
			want := map[string][]string{"web": {"a"}}
			if title == "answers" {
				want["web"] = []string{}
			}
			l.set(func() {
				if diff := cmp.Diff(want, l.baskets); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAServerThatHangsOnDeletionsDelaysNoOtherLogicalClusterAndNotItsOwn(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := s.NewCluster(t, "stuck"), s.NewCluster(t, "stuck-other")
	l, fine := startLarder(own, t, s, "stuck.example.org", "deletecollection"), startLarder(other, t, s, "prompt.stuck.example.org", "deletecollection")
	var mu sync.Mutex
	now, most := 0, 0
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	l.set(func() {
		l.refuse = func(_ http.ResponseWriter, req *http.Request) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			select {
			case <-stop:
			case <-req.Context().Done():
			}
			mu.Lock()
			now--
			mu.Unlock()
		}
	})
	for i := range 16 {
		makeNamespace(own, t, s, fmt.Sprint("web", i))
		deleteNamespace(own, t, s, fmt.Sprint("web", i))
	}
	eventually(t, "the server is asked", func() error {
		mu.Lock()
		defer mu.Unlock()
		if now < 4 {
			return fmt.Errorf("%d requests hang", now)
		}
		return nil
	})
	fine.set(func() { fine.baskets["web"] = []string{"a"} })
	makeNamespace(other, t, s, "web")
	deleteNamespace(other, t, s, "web")
	awaitNoNamespace(other, t, s, "web", 8*time.Second)
	fine.set(func() {
		if list := fine.baskets["web"]; len(list) != 0 {
			t.Errorf("%v is left", list)
		}
	})
	mu.Lock()
	if now == 0 || most > 4 {
		t.Errorf("%d requests hang, at most %d did", now, most)
	}
	mu.Unlock()
	awaitHeld(own, t, s, "web0", corev1.NamespaceDeletionContentFailure, "no answer to DELETE: context deadline exceeded")
	awaitNoLogicalCluster(t, s, "stuck")
}

func TestNoAggregatedServerHoldsALogicalCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "released")
	l := startLarder(own, t, s, "released.example.org", "deletecollection")
	l.set(func() { l.finalizer, l.baskets["web"] = "example.org/wait", []string{"a"} })
	gone := startExtension(t, "away.example.org")
	gone.register(own, t, s, "192.0.2.1") // an address that is denied
	awaitAvailable(own, t, s, gone.group, "False", "FailedDiscoveryCheck")
	makeNamespace(own, t, s, "web")
	deleteNamespace(own, t, s, "web")
	awaitHeld(own, t, s, "web", corev1.NamespaceDeletionDiscoveryFailure, "away.example.org/v1")
	awaitHeld(own, t, s, "web", corev1.NamespaceContentRemaining, "baskets.released.example.org has 1 resource instances")
	awaitNoLogicalCluster(t, s, "released")
}
