package garbagecollector

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/atoll-dev/atoll/pkg/controller"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	nodes      = corev1.SchemeGroupVersion.WithResource("nodes")
)

func owned(kind, namespace, name string, refs ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "7",
			Annotations:     map[string]string{logicalcluster.AnnotationKey: "a"},
			OwnerReferences: refs,
		},
	}
}

func by(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID("uid-of-" + name)}
}

// collect starts a collector over objects, has it look at one of them, and
// returns the requests that it made.
func collect(t *testing.T, gvr schema.GroupVersionResource, subject *metav1.PartialObjectMetadata, others ...runtime.Object) ([]string, controller.Result) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, append(others, subject)...)
	resources := []schema.GroupVersionResource{configMaps, nodes}
	m := controller.NewMetadata(client, resources, Indexers())
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	c := New(Config{Client: client, Metadata: m, Mapper: func(context.Context, logicalcluster.Name) (meta.RESTMapper, error) { return mapper, nil }})

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := m.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	result, err := c.reconcile(ctx, item{Cluster: "a", Resource: gvr, Namespace: subject.Namespace, Name: subject.Name, UID: subject.UID})
	if err != nil {
		t.Fatal(err)
	}
	var requests []string
	for _, a := range client.Actions() {
		switch a := a.(type) {
		case clienttesting.DeleteAction:
			o := a.GetDeleteOptions()
			requests = append(requests, "delete "+a.GetName()+" "+string(*o.Preconditions.UID)+" "+*o.Preconditions.ResourceVersion+" "+string(*o.PropagationPolicy))
		case clienttesting.PatchAction:
			requests = append(requests, "patch "+a.GetName()+" "+string(a.GetPatch()))
		case clienttesting.GetAction:
			requests = append(requests, "get "+a.GetNamespace()+"/"+a.GetName())
		}
	}
	return requests, result
}

func TestWhatTheCollectorDoes(t *testing.T) {
	t.Parallel()
	foreground := owned("ConfigMap", "ns", "owner")
	foreground.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	foreground.Finalizers = []string{metav1.FinalizerDeleteDependents}
	other := owned("ConfigMap", "ns", "owner")
	other.UID = "another"

	for name, tc := range map[string]struct {
		resource schema.GroupVersionResource
		subject  *metav1.PartialObjectMetadata
		others   []runtime.Object
		want     []string
		again    bool
	}{
		"asks nobody about owners that are known": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("ConfigMap", "owner"), by("Node", "node")),
			others: []runtime.Object{owned("ConfigMap", "ns", "owner"), owned("Node", "", "node")},
		},
		"deletes what has no owner any more": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("ConfigMap", "owner")),
			want: []string{"get ns/x", "get ns/owner", "delete x uid-of-x 7 Background"},
		},
		"deletes what an object of the same name does not own": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("ConfigMap", "owner")), others: []runtime.Object{other},
			want: []string{"get ns/x", "get ns/owner", "delete x uid-of-x 7 Background"},
		},
		"takes an owner in another namespace for absent": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("ConfigMap", "owner")),
			others: []runtime.Object{owned("ConfigMap", "other", "owner")},
			want:   []string{"get ns/x", "get ns/owner", "delete x uid-of-x 7 Background"},
		},
		"finds owners without a namespace from any": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("Node", "node")),
			want: []string{"get ns/x", "get /node", "delete x uid-of-x 7 Background"},
		},
		"keeps what one owner keeps, and drops the others": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("ConfigMap", "owner"), by("Node", "node")),
			others: []runtime.Object{owned("Node", "", "node")},
			want: []string{"get ns/x", "get ns/owner", "get /node",
				`patch x {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node","uid":"uid-of-node"}],"resourceVersion":"7","uid":"uid-of-x"}}`},
		},
		"deletes what its waiting owner waits for": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("ConfigMap", "owner")), others: []runtime.Object{foreground},
			want: []string{"get ns/x", "get ns/owner", "delete x uid-of-x 7 Background"},
		},
		"releases a waiting owner that nothing blocks": {
			resource: configMaps, subject: foreground, others: []runtime.Object{owned("ConfigMap", "ns", "x", by("ConfigMap", "owner"))},
			want: []string{"get ns/owner", `patch owner {"metadata":{"finalizers":[],"resourceVersion":"7","uid":"uid-of-owner"}}`},
		},
		"takes an owner of an unknown kind for unknown, not for absent": {
			resource: configMaps, subject: owned("ConfigMap", "ns", "x", by("Widget", "owner")),
			want: []string{"get ns/x"}, again: true,
		},
		"leaves an object alone that has no namespace and an owner in one": {
			resource: nodes, subject: owned("Node", "", "x", by("ConfigMap", "owner")),
			want: []string{"get /x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, result := collect(t, tc.resource, tc.subject, tc.others...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if again := result.RequeueAfter > 0; again != tc.again {
				t.Errorf("looks again: %v", again)
			}
		})
	}
}
