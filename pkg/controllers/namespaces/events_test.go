package namespaces

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// nothingElsewhere is a logical cluster without servers of others.
type nothingElsewhere struct{ Elsewhere }

func (nothingElsewhere) Has(logicalcluster.Name) bool             { return false }
func (nothingElsewhere) Forget(logicalcluster.Name, string)       {}
func (nothingElsewhere) Notify(func(logicalcluster.Name, string)) {}

func held(kind, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: name, UID: types.UID(name), Finalizers: []string{"example.org/hold"},
		DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Annotations: map[string]string{logicalcluster.AnnotationKey: "shop"},
	}}
}

func TestANamespaceIsPassedOverWhenItsLastPodHasGoneAndWhenEverythingHas(t *testing.T) {
	t.Parallel()
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	ns := held("Namespace", "web")
	ns.Namespace = ""
	client := metadatafake.NewSimpleMetadataClient(scheme, ns, held("Pod", "a"), held("Pod", "b"), held("ConfigMap", "c"), held("ConfigMap", "d"))
	client.PrependReactor("delete-collection", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil }) // all are held
	kube := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web", DeletionTimestamp: &now, Finalizers: []string{"example.org/x"}},
		Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}})
	all := controller.NewMetadata(client, []schema.GroupVersionResource{namespaces, pods, configMaps}, nil)
	clusters := controller.NewInformer("logicalclusters", &tenancyv1alpha1.LogicalCluster{},
		controller.Lists(atollfake.NewClientset().TenancyV1alpha1().LogicalClusters()), controller.InformerOptions[*tenancyv1alpha1.LogicalCluster]{})
	var passes atomic.Int32
	verbs := metav1.Verbs{"list", "delete", "deletecollection"}
	c := New(Config{Kinds: workload.Builtin(), Kube: kube, Client: client, Metadata: all, Elsewhere: nothingElsewhere{}, Clusters: clusters,
		Discover: func(context.Context, logicalcluster.Name) ([]*metav1.APIResourceList, error) {
			passes.Add(1)
			return []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
				{Name: "pods", Namespaced: true, Verbs: verbs}, {Name: "configmaps", Namespaced: true, Verbs: verbs}}}}, nil
		}})
	for _, run := range []func(context.Context){all.Run, clusters.Run, c.Run} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	// The timers that keep conditions current are longer.
	until := func(n int32, what string) {
		t.Helper()
		for deadline := time.Now().Add(7 * time.Second); passes.Load() < n; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d passes, want %d", what, passes.Load(), n)
			}
		}
	}
	goes := func(gvr schema.GroupVersionResource, name string) {
		t.Helper()
		if err := client.Tracker().Delete(gvr, "web", name); err != nil {
			t.Fatal(err)
		}
	}
	until(1, "it was deleted")
	goes(pods, "a")
	goes(configMaps, "c")
	time.Sleep(5 * batchDelay) // nothing announces that nothing happens
	if n := passes.Load(); n != 1 {
		t.Errorf("a pod and a config map of two have gone: %d passes, want none more", n)
	}
	goes(pods, "b")
	until(2, "its last pod has gone")
	goes(configMaps, "d")
	until(3, "everything has gone")
}
