package controller_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"

	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestMetadataFindsObjectsByOwnerAndByOtherIndexesWithinALogicalCluster(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	pod := func(cluster logicalcluster.Name, name string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: "uid",
				Annotations: map[string]string{
					logicalcluster.AnnotationKey:       cluster.String(),
					corev1.LastAppliedConfigAnnotation: "{}",
				},
				OwnerReferences: []metav1.OwnerReference{{UID: "owner-1"}, {UID: "owner-2"}},
			},
		}
	}
	client := fake.NewSimpleMetadataClient(scheme, pod("a", "x"), pod("b", "y"))
	m := controller.NewMetadata(client, []schema.GroupVersionResource{pods}, map[string]func(*metav1.PartialObjectMetadata) []string{
		"name": func(o *metav1.PartialObjectMetadata) []string { return []string{o.Name} },
	})
	run(t, m.Run)
	if err := m.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := func(index, value string) []string {
		var out []string
		for _, o := range m.For(pods).ByIndex(index, value) {
			out = append(out, controller.RequestFor(o).String())
		}
		return out
	}
	for index, value := range map[string]string{
		controller.OwnerIndex: controller.UIDKey("a", "owner-2"),
		"name":                "x",
	} {
		if diff := cmp.Diff([]string{"a|default/x"}, found(index, value)); diff != "" {
			t.Errorf("%s: %s", index, diff)
		}
	}
	if o, _ := m.For(pods).Get(at("a", "default", "x")); o == nil || len(o.Annotations) != 1 {
		t.Errorf("kept %v", o)
	}
	if m.For(pods.GroupResource().WithVersion("v2")) != nil {
		t.Error("there is an informer for an unknown resource")
	}
}
