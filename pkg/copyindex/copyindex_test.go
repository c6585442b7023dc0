package copyindex

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestCopiesAreFoundByObjectTargetAndVolume(t *testing.T) {
	record := func(cluster, namespace, resource, object, target string) placementv1alpha1.Copy {
		c := placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: object + "-" + target, Annotations: map[string]string{logicalcluster.AnnotationKey: cluster},
		}}
		c.Spec.PhysicalCluster = target
		c.Spec.Object = placementv1alpha1.ObjectReference{Resource: resource, Name: object}
		return c
	}
	list := &placementv1alpha1.CopyList{Items: []placementv1alpha1.Copy{
		record("shop", "web", "services", "front", "east"), record("shop", "web", "services", "front", "west"),
		record("shop", "api", "services", "front", "east"), record("bank", "web", "services", "front", "east"),
		record("shop", "web", "namespaces", "web", "west"),
	}}
	volume := placementv1alpha1.VolumeHandle{Driver: "d", Handle: "h"}
	list.Items[0].Status.Volume = &placementv1alpha1.CopyVolume{Source: &placementv1alpha1.VolumeSource{Driver: "d", Handle: "h"}}
	list.Items[2].Status.Volume = &placementv1alpha1.CopyVolume{Content: &placementv1alpha1.VolumeContent{Snapshot: &placementv1alpha1.SnapshotSource{Driver: "d", Handle: "h"}}}
	list.Items[3].Status.Volume = &placementv1alpha1.CopyVolume{Content: &placementv1alpha1.VolumeContent{Snapshot: &placementv1alpha1.SnapshotSource{Driver: "other", Handle: "h"}}}
	copies := controller.NewInformer("copies", &placementv1alpha1.Copy{}, controller.ListWatch{
		List:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, controller.InformerOptions[*placementv1alpha1.Copy]{Indexers: Indexers()})
	go copies.Run(t.Context())
	if err := copies.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	names := func(found []*placementv1alpha1.Copy) (out []string) {
		for _, c := range found {
			out = append(out, logicalcluster.From(c).String()+"/"+c.Namespace+"/"+c.Name)
		}
		slices.Sort(out)
		return out
	}
	services := schema.GroupResource{Resource: "services"}
	for name, c := range map[string]struct {
		got  []*placementv1alpha1.Copy
		want []string
	}{
		"of a Service": {Of(copies, Object{services, controller.Request{Cluster: "shop", Namespace: "web", Name: "front"}}),
			[]string{"shop/web/front-east", "shop/web/front-west"}},
		"of a Namespace": {Of(copies, Object{namespaces, controller.Request{Cluster: "shop", Name: "web"}}), []string{"shop/web/web-west"}},
		"of nothing":     {Of(copies, Object{services, controller.Request{Cluster: "shop", Namespace: "web", Name: "back"}}), nil},
		"with a volume, or a snapshot of its name": {Holding(copies, volume), []string{"shop/api/front-east", "shop/web/front-east"}},
		"on east": {On(copies, "east"), []string{"bank/web/front-east", "shop/api/front-east", "shop/web/front-east"}},
	} {
		if diff := cmp.Diff(c.want, names(c.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
