package status

import (
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestADeploymentHasTheHighestNumberOfItsReplicaSets(t *testing.T) {
	t.Parallel()
	deployment := object(deployments, "Deployment", "web")
	set := func(name, cluster, number string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "web", Name: name, Annotations: map[string]string{logicalcluster.AnnotationKey: cluster, revisionAnnotation: number},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: deployment.GetUID()}},
			},
		}
	}
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := []runtime.Object{set("web-1", "shop", "9"), set("web-2", "shop", "10"), set("web-3", "shop", ""), set("web-4", "other", "12")}
	m := controller.NewMetadata(metadatafake.NewSimpleMetadataClient(scheme, objects...), []schema.GroupVersionResource{{Group: "apps", Version: "v1", Resource: "replicasets"}}, nil)
	go m.Run(t.Context())
	if err := m.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &Controller{Config: Config{Kinds: workload.Builtin(), Metadata: m}}
	k := key{Resource: deployments.GroupResource(), Object: controller.RequestFor(deployment)}
	if !s.number(k, deployment) || deployment.GetAnnotations()[revisionAnnotation] != "10" {
		t.Errorf("the Deployment has %v", deployment.GetAnnotations())
	}
	if s.number(k, deployment) {
		t.Error("it is numbered again")
	}
}

func TestAStatusThatSomebodyElseWroteIsLookedAt(t *testing.T) {
	t.Parallel()
	at := func(version string, change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID: "u", Generation: 2, ResourceVersion: version, Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`},
		}}
		if change != nil {
			change(o)
		}
		return o
	}
	old := at("1", nil)
	for name, c := range map[string]struct {
		new  *metav1.PartialObjectMetadata
		want bool
	}{
		"the status": {at("2", nil), true},
		"nothing":    {at("1", nil), false},
		"the spec":   {at("2", func(o *metav1.PartialObjectMetadata) { o.Generation = 3 }), false},
		"a label":    {at("2", func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"a": "b"} }), false},
		"it was mirrored": {at("2", func(o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Observed","uid":"x"}}`}
		}), false},
		"another object": {at("2", func(o *metav1.PartialObjectMetadata) { o.UID = "v" }), false},
	} {
		if got := onlyStatus(old, c.new); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
