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

func TestMetadataOfAnInformerThatHasAllIsNotWatchedAgain(t *testing.T) {
	t.Parallel()
	s := newServer()
	old := object("a", "web", "old", "1")
	old.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	old.OwnerReferences = []metav1.OwnerReference{{UID: "owner"}}
	s.putUnseen(old)
	whole := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})

	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	client := fake.NewSimpleMetadataClient(runtime.NewScheme())
	m := controller.NewMetadata(client, []schema.GroupVersionResource{configMaps}, nil, controller.From(configMaps, whole))
	run(t, m.Run)
	if err := m.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var events log
	m.For(configMaps).Handle(func(old, new *metav1.PartialObjectMetadata) { events.handle(asConfigMap(old), asConfigMap(new)) })
	s.put(object("b", "web", "new", "2"))
	eventually(t, "the new object", func() bool { return m.For(configMaps).CountCluster("b") == 1 })
	s.put(object("b", "web", "new", "3")) // deleted and made again
	eventually(t, "the object that was made again", func() bool {
		o, ok := m.For(configMaps).Get(at("b", "web", "new"))
		return ok && o.UID == "3"
	})
	s.remove(at("a", "web", "old"), true)
	eventually(t, "the end of the old object", func() bool { return m.For(configMaps).CountCluster("a") == 0 })
	want := []string{"add a|web/old 1", "add b|web/new 2", "delete b|web/new 2", "add b|web/new 3", "delete a|web/old 1"}
	if diff := cmp.Diff(want, events.take()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if actions := client.Actions(); len(actions) > 0 {
		t.Errorf("the server was asked: %v", actions)
	}
}

func TestMetadataThatIsDerivedIsTrimmedAndLeavesTheWholeObjectAlone(t *testing.T) {
	t.Parallel()
	s := newServer()
	cm := object("a", "web", "x", "1")
	cm.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	s.putUnseen(cm)
	whole := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	m := controller.NewMetadata(fake.NewSimpleMetadataClient(runtime.NewScheme()), []schema.GroupVersionResource{configMaps}, nil, controller.From(configMaps, whole))
	run(t, m.Run)
	if err := m.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _ := m.For(configMaps).Get(at("a", "web", "x"))
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: "x", UID: "1", ResourceVersion: "1", Annotations: map[string]string{logicalcluster.AnnotationKey: "a"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if kept, _ := whole.Get(at("a", "web", "x")); kept.Annotations[corev1.LastAppliedConfigAnnotation] == "" {
		t.Error("the whole object was changed")
	}
}

func asConfigMap(o *metav1.PartialObjectMetadata) *corev1.ConfigMap {
	if o == nil {
		return nil
	}
	return &corev1.ConfigMap{ObjectMeta: o.ObjectMeta}
}
