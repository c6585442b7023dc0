package controller

import (
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func cpus(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

// running is a Deployment whose pods request one CPU each.
func running(t *testing.T, o *metav1.PartialObjectMetadata, replicas int64) *unstructured.Unstructured {
	t.Helper()
	u := unstructuredOf(t, o)
	if err := unstructured.SetNestedField(u.Object, replicas, "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	containers := []any{map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}}
	if err := unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAUnitIsWeighedWhereItIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		bounds  corev1.ResourceList
		letIn   corev1.ResourceList
		change  func(*placementv1alpha1.Placement)
		want    string
		noReads bool
	}{
		"bounded":                           {bounds: cpus("9"), letIn: cpus("2"), want: "3"},
		"nothing is bounded":                {letIn: cpus("2"), want: "none", noReads: true},
		"something else is":                 {bounds: corev1.ResourceList{fleetv1alpha1.BoundNamespaces: resource.MustParse("9")}, letIn: cpus("2"), want: "none", noReads: true},
		"it was decided before this counts": {bounds: cpus("9"), want: "none", noReads: true},
		"it moves": {
			bounds: cpus("9"), letIn: cpus("2"), want: "1", noReads: true,
			change: func(p *placementv1alpha1.Placement) {
				p.Spec.Transition, p.Status.Requests = &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionStarting}, cpus("1")
			},
		},
		"its replicas are divided over two": {
			bounds: cpus("9"), letIn: cpus("2"), want: "1500m",
			change: func(p *placementv1alpha1.Placement) {
				p.Spec.Decision.PhysicalClusters = append(p.Spec.Decision.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: "west"})
				p.Spec.Decision.Division = &placementv1alpha1.DecidedDivision{}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
			east.Spec.Bounds = c.bounds
			p := placementOf("east")
			p.Spec.Decision.PhysicalClusters[0].Requests = c.letIn
			if c.change != nil {
				c.change(p)
			}
			d, mirrored := deployment("web", `{"east":{}}`, 1), deployment("made", `{"east":{"state":"Observed","uid":"x"}}`, 1)
			f := newFixture(t, complete(), east, p, d, mirrored)
			lists := map[schema.GroupVersionResource]string{deployments: "DeploymentList"}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, running(t, d, 3), running(t, mirrored, 5))
			f.Dynamic = client
			weigh := func() string {
				t.Helper()
				u, ok, err := f.read(t.Context(), web)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				requests, err := f.weigh(t.Context(), u)
				if err != nil {
					t.Fatal(err)
				}
				if requests == nil {
					return "none"
				}
				q := requests[corev1.ResourceCPU]
				return q.String()
			}
			if got := weigh(); got != c.want {
				t.Errorf("it requests %s, want %s", got, c.want)
			}
			if read := len(client.Actions()) > 0; read == c.noReads {
				t.Errorf("it reads objects: %v", read)
			}
			client.ClearActions()
			if got := weigh(); got != c.want || len(client.Actions()) > 0 {
				t.Errorf("nothing has changed, and it requests %s and reads %v", got, client.Actions())
			}
		})
	}
}

// What nothing requests any more is known to be nothing: else it would count for what it came with.
func TestThatNothingIsRequestedIsKnown(t *testing.T) {
	east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	east.Spec.Bounds = cpus("9")
	p := placementOf("east")
	p.Spec.Decision.PhysicalClusters[0].Requests = cpus("2")
	f := newFixture(t, complete(), east, p)
	u, ok, err := f.read(t.Context(), web)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	requests, err := f.weigh(t.Context(), u)
	if q, known := requests[corev1.ResourceCPU]; err != nil || !known || !q.IsZero() {
		t.Errorf("it requests %v, %v", requests, err)
	}
}
