package attack

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// keptObjects is what a syncer keeps by default where nothing is placed, and sentObjects
	// what it may take of a watch until it ends it: what is under way counts.
	keptObjects, sentObjects = 10_000, 60_000
	// inventedAtMost bounds the attack.
	inventedAtMost = 300_000
)

var inventedObjects = Attack{
	Name: "a physical cluster that invents objects by watch ends its own session, and grows the server to its bound",
	Fence: func(ctx context.Context, w *World) error {
		i := newInventor()
		defer i.close()
		unregister, err := w.connect(ctx, "inventor", i.URL, i.ca(), nil)
		if err != nil {
			return err
		}
		defer unregister()
		if err := eventually(ctx, "its PhysicalCluster says so", func() error { return w.saysReady(ctx, "inventor", metav1.ConditionFalse, fleetv1alpha1.ReasonTooLarge) }); err != nil {
			return err
		}
		if n := i.sent.Load(); n < keptObjects || n > sentObjects {
			return fmt.Errorf("%d objects were taken, %d are kept", n, keptObjects)
		}
		i.stop.Store(true)
		return eventually(ctx, "it is synced when it is over", func() error { return w.saysReady(ctx, "inventor", metav1.ConditionTrue, fleetv1alpha1.ReasonHeartbeat) })
	},
	Control: func(ctx context.Context, w *World) error {
		i := newInventor()
		defer i.close()
		unregister, err := w.connect(ctx, "trusted-inventor", i.URL, i.ca(), corev1.ResourceList{
			fleetv1alpha1.BoundObjects: resource.MustParse("1M"), fleetv1alpha1.BoundObjectsMemory: resource.MustParse("4Gi"),
		})
		if err != nil {
			return err
		}
		defer unregister()
		return eventually(ctx, "more is taken than is kept of others", func() error {
			if n := i.sent.Load(); n <= 2*sentObjects {
				return fmt.Errorf("%d objects were taken", n)
			}
			return nil
		})
	},
}

// saysReady fails if the condition Ready of a PhysicalCluster is another one.
func (w *World) saysReady(ctx context.Context, name string, status metav1.ConditionStatus, reason string) error {
	pc, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady)
	if c == nil {
		return errors.New("it has no condition Ready")
	}
	if c.Status != status || c.Reason != reason {
		return fmt.Errorf("its condition Ready is %s, %s: %s", c.Status, c.Reason, c.Message)
	}
	return nil
}

// inventor looks like a physical cluster on which there is nothing, until somebody watches
// the pods of a control plane.
type inventor struct {
	*httptest.Server
	sent atomic.Int64
	stop atomic.Bool
	// endless says that it does not invent pods: a list of them has one, whose name does not end. lists is
	// how many of these were given up, longest how many bytes of one were taken.
	endless        bool
	lists, longest atomic.Int64
}

func newInventor() *inventor {
	i := &inventor{}
	i.Server = httptest.NewTLSServer(i)
	return i
}

func (i *inventor) close() {
	i.CloseClientConnections()
	i.Close()
}

func (i *inventor) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
}

// ServeHTTP implements http.Handler.
func (i *inventor) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path, list := req.URL.Path, map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}}
	switch {
	case req.Method != http.MethodGet:
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, http.StatusForbidden)
	case path == "/version":
		answerJSON(w, map[string]any{"major": "1", "minor": "37", "gitVersion": "v1.37.1"})
	case path == "/api":
		answerJSON(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case path == "/apis":
		answerJSON(w, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	case path == "/api/v1":
		answerJSON(w, inventedResources())
	case path == "/api/v1/namespaces/kube-system":
		answerJSON(w, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "kube-system", "uid": "inventor-" + i.URL[strings.LastIndex(i.URL, ":")+1:], "resourceVersion": "1"}})
	case req.URL.Query().Get("watch") == "" && path == "/api/v1/pods" && i.endless:
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"`)
		withoutEnd(w, &i.longest)
		i.lists.Add(1)
	case req.URL.Query().Get("watch") == "":
		list["apiVersion"], list["kind"] = "v1", listKinds[path[strings.LastIndex(path, "/")+1:]]
		if list["kind"] == "" {
			http.NotFound(w, req)
			return
		}
		answerJSON(w, list)
	case path == "/api/v1/pods" && strings.HasPrefix(req.URL.Query().Get("labelSelector"), placementv1alpha1.ManagedByLabel):
		_, controlPlane, _ := strings.Cut(req.URL.Query().Get("labelSelector"), "=")
		i.invent(w, req, controlPlane)
	default:
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}
}

// invent sends pods without end.
func (i *inventor) invent(w http.ResponseWriter, req *http.Request, controlPlane string) {
	w.(http.Flusher).Flush()
	for !i.stop.Load() && i.sent.Load() < inventedAtMost {
		n := i.sent.Add(1)
		_, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p-%d","namespace":"invented","uid":"u-%d","resourceVersion":"%d","labels":{%q:%q}}}}`+"\n",
			n, n, n+1, placementv1alpha1.ManagedByLabel, controlPlane)
		if err != nil {
			return
		}
	}
	w.(http.Flusher).Flush()
	<-req.Context().Done()
}

var listKinds = map[string]string{"namespaces": "NamespaceList", "pods": "PodList", "nodes": "NodeList", "configmaps": "ConfigMapList", "events": "EventList"}

func inventedResources() metav1.APIResourceList {
	l := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1"}
	verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	for name, list := range listKinds {
		l.APIResources = append(l.APIResources, metav1.APIResource{Name: name, Kind: strings.TrimSuffix(list, "List"), Namespaced: name != "namespaces" && name != "nodes", Verbs: verbs})
	}
	return l
}

func answerJSON(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
