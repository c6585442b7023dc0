package copies

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// known is an informer that holds objects, whatever the server has.
func known[T controller.Object](t *testing.T, example T, list runtime.Object, indexers map[string]func(T) []string) *controller.Informer[T] {
	t.Helper()
	i := controller.NewInformer("known", example, controller.ListWatch{
		List:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, controller.InformerOptions[T]{Indexers: indexers})
	go i.Run(t.Context())
	if err := i.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func physicalCluster(forget bool) *fleetv1alpha1.PhysicalCluster {
	return &fleetv1alpha1.PhysicalCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}},
		Spec:       fleetv1alpha1.PhysicalClusterSpec{Forget: forget},
	}
}

func TestAnAbsenceThatTheServerDoesNotConfirmReleasesNothing(t *testing.T) {
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	newCopy := func(uid string) *placementv1alpha1.Copy {
		c := aCopy("east", "u", placementv1alpha1.CopySynced)
		c.Namespace, c.Name = "web", syncer.CopyName(services.GroupResource(), "front", "east")
		c.Spec.Object.UID = types.UID(uid)
		return c
	}
	for name, c := range map[string]struct {
		informed *fleetv1alpha1.PhysicalCluster // what the informer has
		live     []runtime.Object               // what the server has
		fails    bool                           // the server does not answer about physical clusters
		targets  string
		released bool
	}{
		"absent from the informer, registered":               {nil, []runtime.Object{physicalCluster(false)}, false, `{"east":{}}`, false},
		"absent from the informer, the server is silent":     {nil, []runtime.Object{physicalCluster(false)}, true, `{"east":{}}`, false},
		"the order to forget was taken back":                 {physicalCluster(true), []runtime.Object{physicalCluster(false)}, false, `{"east":{}}`, false},
		"absent, what it mirrors is not released either":     {nil, []runtime.Object{physicalCluster(false)}, false, `{"east":{"state":"Observed"}}`, false},
		"a Copy that the informer lacks":                     {nil, []runtime.Object{newCopy("u")}, false, `{"east":{}}`, false},
		"a Copy that the informer lacks, of a predecessor":   {nil, []runtime.Object{newCopy("before")}, false, `{"east":{}}`, true},
		"registered, for all that anybody knows":             {physicalCluster(false), nil, false, `{"east":{}}`, false},
		"not registered":                                     {nil, nil, false, `{"east":{}}`, true},
		"not registered, mirrored from it: see mirrors":      {nil, nil, false, `{"east":{"state":"Observed"}}`, false},
		"to be forgotten":                                    {physicalCluster(true), []runtime.Object{physicalCluster(true)}, false, `{"east":{}}`, true},
		"to be forgotten, the informer does not know it yet": {nil, []runtime.Object{physicalCluster(true)}, false, `{"east":{}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}}
			anObject(c.targets, true).(*metav1.ObjectMeta).DeepCopyInto(&object.ObjectMeta)
			object.Namespace, object.Name = "web", "front"
			metadata := metadatafake.NewSimpleMetadataClient(scheme, object)
			client := fake.NewSimpleClientset(c.live...)
			if c.fails {
				client.PrependReactor("get", "physicalclusters", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("no answer")
				})
			}
			list := &fleetv1alpha1.PhysicalClusterList{}
			if c.informed != nil {
				list.Items = append(list.Items, *c.informed)
			}
			s := New(Config{
				Kinds:  workload.Builtin(),
				Client: client, MetadataClient: metadata,
				Copies:           known(t, &placementv1alpha1.Copy{}, &placementv1alpha1.CopyList{}, copyindex.Indexers()),
				PhysicalClusters: known(t, &fleetv1alpha1.PhysicalCluster{}, list, nil),
			})
			_, err := s.reconcile(t.Context(), key{Resource: services, Object: controller.Request{Cluster: "shop", Namespace: "web", Name: "front"}})
			if (err != nil) != c.fails {
				t.Fatalf("error: %v", err)
			}
			live, err := metadata.Resource(services).Namespace("web").Get(t.Context(), "front", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if released := !slices.Contains(live.Finalizers, placementv1alpha1.CopiesFinalizer); released != c.released {
				t.Errorf("released: %v, want %v", released, c.released)
			}
		})
	}
}
