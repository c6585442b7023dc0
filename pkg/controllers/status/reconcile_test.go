package status

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	noon        = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
)

// start makes a controller in whose world there are obj and copies.
func start(t *testing.T, obj *unstructured.Unstructured, copies ...placementv1alpha1.Copy) (*Controller, *fake.FakeDynamicClient) {
	t.Helper()
	client := fake.NewSimpleDynamicClient(runtime.NewScheme(), obj)
	informer := controller.NewInformer("copies", &placementv1alpha1.Copy{}, controller.ListWatch{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &placementv1alpha1.CopyList{Items: copies}, nil
		},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, controller.InformerOptions[*placementv1alpha1.Copy]{Indexers: copyindex.Indexers()})
	go informer.Run(t.Context())
	if err := informer.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := New(Config{Kinds: workload.Builtin(), Dynamic: client, Copies: informer})
	s.now = func() time.Time { return noon }
	return s, client
}

func object(gvr schema.GroupVersionResource, kind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	obj.SetNamespace("web")
	obj.SetName(name)
	obj.SetUID(types.UID("uid-of-" + name))
	obj.SetResourceVersion("7")
	obj.SetGeneration(2)
	obj.SetAnnotations(map[string]string{
		logicalcluster.AnnotationKey: "shop", placementv1alpha1.TargetsAnnotation: `{"east":{}}`,
	})
	return obj
}

func copyOf(obj *unstructured.Unstructured, gvr schema.GroupVersionResource, observed string) placementv1alpha1.Copy {
	c := placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: obj.GetName() + "-east", Annotations: map[string]string{logicalcluster.AnnotationKey: "shop"}},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID(),
		}},
	}
	c.Status.State, c.Status.AppliedGeneration, c.Status.ObservedGeneration = placementv1alpha1.CopySynced, 2, 2
	c.Status.Observed = &runtime.RawExtension{Raw: []byte(observed)}
	return c
}

func keyFor(gvr schema.GroupVersionResource, name string) key {
	return key{Resource: gvr.GroupResource(), Object: controller.Request{Cluster: "shop", Namespace: "web", Name: name}}
}

// requests are what a client was asked to do, in short.
func requests(client *fake.FakeDynamicClient) []string {
	var out []string
	for _, a := range client.Actions() {
		out = append(out, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
	}
	client.ClearActions()
	return out
}

func TestTheStatusIsWhatTheCopiesSayAndIsWrittenOnce(t *testing.T) {
	app := object(deployments, "Deployment", "app")
	s, client := start(t, app, copyOf(app, deployments, `{"replicas":3,"readyReplicas":2,"observedGeneration":9}`))
	for _, want := range [][]string{{"get deployments", "update deployments/status"}, {"get deployments"}} {
		if _, err := s.reconcile(t.Context(), keyFor(deployments, "app")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, requests(client)); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	}
	got, err := client.Resource(deployments).Namespace("web").Get(t.Context(), "app", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"replicas": int64(3), "readyReplicas": int64(2), "observedGeneration": int64(2)}
	if diff := cmp.Diff(want, got.Object["status"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhatTheWatchCacheLacksIsReadAnew(t *testing.T) {
	app := object(deployments, "Deployment", "app")
	s, client := start(t, app, copyOf(app, deployments, `{"replicas":1}`))
	reads := 0
	client.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return reads == 1, nil, apierrors.NewNotFound(deployments.GroupResource(), "app")
	})
	if _, err := s.reconcile(t.Context(), keyFor(deployments, "app")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"get deployments", "get deployments", "update deployments/status"}, requests(client)); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

// The watch cache may be behind our last write. If the copies then say what it has,
// nothing would be written, and nobody would look again: the echo is skipped.
func TestWhatIsReadIsNotOlderThanTheLastOwnWrite(t *testing.T) {
	app := object(deployments, "Deployment", "app")
	s, client := start(t, app, copyOf(app, deployments, `{"replicas":3}`))
	client.PrependReactor("update", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		written := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*unstructured.Unstructured)
		written.SetResourceVersion("8")
		return true, written, nil
	})
	var asked []string
	client.PrependReactor("get", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked = append(asked, a.(clienttesting.GetActionImpl).GetOptions.ResourceVersion)
		return false, nil, nil
	})
	for range 2 {
		if _, err := s.reconcile(t.Context(), keyFor(deployments, "app")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"0", "8"}, asked); diff != "" {
		t.Errorf("read at (-want +got)\n%s", diff)
	}
}

func TestWhatIsGoneOrUnknownHasNoStatus(t *testing.T) {
	s, client := start(t, object(deployments, "Deployment", "app"))
	for _, k := range []key{keyFor(deployments, "gone"), keyFor(schema.GroupVersionResource{Group: "example.com", Resource: "things"}, "app")} {
		if _, err := s.reconcile(t.Context(), k); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if diff := cmp.Diff([]string{"get deployments", "get deployments"}, requests(client)); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestAStatusThatTheServerRefusesIsAnError(t *testing.T) {
	app := object(deployments, "Deployment", "app")
	s, client := start(t, app, copyOf(app, deployments, `{"replicas":1}`))
	for name, c := range map[string]struct {
		err     error
		fine    bool
		message string
	}{
		"invalid":  {apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "app", nil), false, "writing the status"},
		"conflict": {apierrors.NewConflict(deployments.GroupResource(), "app", nil), false, "writing the status"},
		"gone":     {apierrors.NewNotFound(deployments.GroupResource(), "app"), true, ""},
	} {
		client.PrependReactor("update", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
		_, err := s.reconcile(t.Context(), keyFor(deployments, "app"))
		if c.fine != (err == nil) || err != nil && !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "conflict" && !apierrors.IsConflict(err) {
			t.Errorf("a conflict is not recognized as one: %v", err)
		}
	}
}

func TestAFinishedJobIsRemovedWhenItsTimeIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		ended   time.Duration
		after   time.Duration
		deleted bool
	}{
		"over":     {time.Minute, 0, true},
		"not over": {20 * time.Second, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			job := object(jobs, "Job", "once")
			job.Object["spec"] = map[string]any{"ttlSecondsAfterFinished": int64(30)}
			job.Object["status"] = map[string]any{
				"succeeded": int64(1), "completionTime": noon.Add(-c.ended).Format(time.RFC3339),
				"conditions": []any{map[string]any{"type": "Complete", "status": "True", "lastTransitionTime": noon.Add(-c.ended).Format(time.RFC3339)}},
			}
			s, client := start(t, job)
			result, err := s.reconcile(t.Context(), keyFor(jobs, "once"))
			if err != nil {
				t.Fatal(err)
			}
			if result.RequeueAfter != c.after {
				t.Errorf("looked at again after %s, not %s", result.RequeueAfter, c.after)
			}
			for _, a := range client.Actions() {
				d, ok := a.(clienttesting.DeleteActionImpl)
				if !ok {
					continue
				}
				p := d.GetDeleteOptions().Preconditions
				if !c.deleted || p == nil || p.UID == nil || *p.UID != job.GetUID() || p.ResourceVersion == nil {
					t.Errorf("deleted with %+v", d.GetDeleteOptions())
				}
				c.deleted = false
			}
			if c.deleted {
				t.Error("it is still there")
			}
		})
	}
}
