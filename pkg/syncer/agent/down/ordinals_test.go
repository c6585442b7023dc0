package down

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

func TestPodsOfAStatefulSetAreFoundByTheirNamesInItsNamespace(t *testing.T) {
	f := newFixture(t, nil, nil)
	var pods []*metav1.PartialObjectMetadata
	for _, at := range [][2]string{{"here", "db-3"}, {"here", "db-1"}, {"here", "web-7"}, {"there", "db-9"}} {
		pods = append(pods, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: at[0], Name: at[1]},
		})
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f.Config.Down.Metadata = metadatafake.NewSimpleMetadataClient(scheme, pods[0], pods[1], pods[2], pods[3])
	p := &pass{Reconciler: f.Reconciler, key: viewtest.KeyOf("StatefulSet", "web", "db"), in: syncer.Input{Namespace: syncer.Namespace{Name: "here"}}}
	if err := p.lookAtPods(f.Ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&placementv1alpha1.OrdinalRange{Start: 1, End: 4}, p.in.Pods); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAStatefulSetWaitsForAutoscalersThatMayBeBelow(t *testing.T) {
	const ranged, scaler = `{"east":{"replicas":2,"ordinals":{"start":1,"revision":1}}}`, "HorizontalPodAutoscaler"
	for _, c := range []struct {
		name   string
		scales string
		state  placementv1alpha1.CopyState
		want   bool
	}{
		{"it is about to be", "db", placementv1alpha1.CopyPending, true},
		{"it is there", "db", placementv1alpha1.CopySynced, true},
		{"it was not applied", "db", placementv1alpha1.CopyFailed, false},
		{"it is gone", "db", placementv1alpha1.CopyRemoved, false},
		{"it scales another one", "cache", placementv1alpha1.CopySynced, false},
	} {
		set, hpa := viewtest.Logical("StatefulSet", "web", "db", "s", ranged), viewtest.Logical(scaler, "web", "scaler", "h", `{"east":{}}`)
		hpa.Object["spec"] = map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": c.scales}}
		f := newFixture(t, []runtime.Object{viewtest.Namespace(), set, hpa}, nil, viewtest.Copy(hpa, placementv1alpha1.CopyStatus{State: c.state}))
		f.Watch(t)
		read := func(kind, name string) syncer.Input {
			p := &pass{Reconciler: f.Reconciler, key: viewtest.KeyOf(kind, "web", name), kind: viewtest.Kind(kind)}
			p.read()
			return p.in
		}
		if got := read("StatefulSet", "db").ScaledBelow; got != c.want {
			t.Errorf("%s: an autoscaler of the StatefulSet may be below: %v", c.name, got)
		}
		// Of what was removed nothing is read until the server took note.
		if got, want := read(scaler, "scaler").ScalesRange, c.scales == "db" && c.state != placementv1alpha1.CopyRemoved; got != want {
			t.Errorf("%s: the autoscaler scales a range: %v", c.name, got)
		}
	}
}
