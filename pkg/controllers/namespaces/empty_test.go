package namespaces

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// namespaceContent is a namespace whose objects go when they are deleted, unless their
// resource is held; it remembers what it was asked.
type namespaceContent struct {
	metadata.Interface
	mu    sync.Mutex
	items map[string]int
	held  map[string]bool
	asked []string
}

func (c *namespaceContent) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return contentResource{content: c, name: gvr.Resource}
}

type contentResource struct {
	metadata.Getter // nothing else is asked
	content         *namespaceContent
	name            string
}

func (r contentResource) Namespace(string) metadata.ResourceInterface { return r }

func (r contentResource) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	r.content.mu.Lock()
	defer r.content.mu.Unlock()
	r.content.asked = append(r.content.asked, "list "+r.name)
	list := &metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, r.content.items[r.name])}
	if r.content.held[r.name] {
		for i := range list.Items {
			list.Items[i].Finalizers = []string{"example.org/hold"}
		}
	}
	return list, nil
}

func (r contentResource) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	r.content.mu.Lock()
	defer r.content.mu.Unlock()
	r.content.asked = append(r.content.asked, "delete "+r.name)
	if !r.content.held[r.name] {
		delete(r.content.items, r.name)
	}
	return nil
}

func TestAPassAsksForWhatIsThereAndForTheRestOnlyBeforeTheNamespaceGoes(t *testing.T) {
	t.Parallel()
	lists := []*metav1.APIResourceList{{GroupVersion: "v1"}}
	for _, name := range []string{"pods", "configmaps", "secrets", "services", "endpoints"} {
		lists[0].APIResources = append(lists[0].APIResources, metav1.APIResource{Name: name, Namespaced: true, Verbs: metav1.Verbs{"list", "delete", "deletecollection"}})
	}
	vacant := map[schema.GroupVersionResource]bool{}
	for _, name := range []string{"secrets", "services", "endpoints"} {
		vacant[corev1.SchemeGroupVersion.WithResource(name)] = true
	}
	touched := []string{"delete configmaps", "delete pods", "list configmaps", "list pods"}
	verified := append([]string{"list endpoints", "list secrets", "list services"}, touched...)
	slices.Sort(verified)
	for title, c := range map[string]struct {
		items map[string]int
		held  string
		asked []string
		gone  bool
		again bool // after a while
		err   error
	}{
		"what is there goes, and the namespace with it":       {items: map[string]int{"configmaps": 2}, asked: verified, gone: true},
		"what is there is held":                               {items: map[string]int{"configmaps": 2}, held: "configmaps", asked: touched, again: true},
		"something that the informers do not know":            {items: map[string]int{"secrets": 1}, asked: nil, err: errFound},
		"pods that nobody holds, and that take their time":    {items: map[string]int{"pods": 1}, held: "pods", asked: []string{"delete pods", "list pods"}, again: true},
		"nothing is there, and everything was asked for once": {asked: verified, gone: true},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", DeletionTimestamp: &metav1.Time{Time: time.Now()}, Finalizers: []string{"example.org/x"}},
				Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}
			kube := fake.NewClientset(ns)
			content := &namespaceContent{items: c.items, held: map[string]bool{c.held: true}}
			if c.items == nil {
				content.items = map[string]int{}
			}
			controlled := &Controller{Config: Config{Kinds: workload.Builtin(), Kube: kube, Client: content}, holds: map[controller.Request]*hold{}}
			result, err := controlled.pass(t.Context(), controller.Request{Cluster: "shop", Name: "web"}, "u", lists, sight{}, plan{finalize: true}, vacant)
			if !errors.Is(err, c.err) || (result.RequeueAfter > 0) != c.again {
				t.Errorf("again after %s, %v", result.RequeueAfter, err)
			}
			slices.Sort(content.asked)
			if diff := cmp.Diff(c.asked, content.asked); c.asked != nil && diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			finalized := slices.ContainsFunc(kube.Actions(), func(a clienttesting.Action) bool { return a.GetSubresource() == "finalize" })
			if finalized != c.gone {
				t.Errorf("the namespace may go: %v", finalized)
			}
		})
	}
}
