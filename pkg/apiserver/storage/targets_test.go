package storage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/kubernetes/pkg/apis/coordination"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

func TestTargetsOf(t *testing.T) {
	t.Parallel()
	meta := func(cluster, name, targets string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			logicalcluster.AnnotationKey:        cluster,
			placementv1alpha1.TargetsAnnotation: targets,
		}}
	}
	for name, tc := range map[string]struct {
		obj  runtime.Object
		want []string
	}{
		"an object is visible to all its targets, whatever their state": {
			obj:  &example.Pod{ObjectMeta: meta("a", "web", `{"west":{"state":"Removing"},"east":{},"north":{"state":"Observed"}}`)},
			want: []string{"east", "north", "west"},
		},
		"an object without targets is visible to none":        {obj: &example.Pod{ObjectMeta: meta("a", "web", "")}},
		"an object with a broken annotation to none":          {obj: &example.Pod{ObjectMeta: meta("a", "web", `["east"]`)}},
		"a Copy to its target, whatever is annotated":         {obj: &placementv1alpha1.Copy{ObjectMeta: meta("a", "web", `{"west":{}}`), Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}, want: []string{"east"}},
		"a PhysicalCluster in root to itself":                 {obj: &fleetv1alpha1.PhysicalCluster{ObjectMeta: meta("root", "east", "")}, want: []string{"east"}},
		"a Lease in root to the physical cluster of its name": {obj: &coordination.Lease{ObjectMeta: meta("root", "east", "")}, want: []string{"east"}},
		"a Lease of a tenant to none":                         {obj: &coordination.Lease{ObjectMeta: meta("a", "east", "")}},
		"a PhysicalCluster of a tenant to none":               {obj: &fleetv1alpha1.PhysicalCluster{ObjectMeta: meta("a", "east", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := storage.TargetsOf(tc.obj); len(got) != len(tc.want) || (len(got) > 0 && !cmp.Equal(tc.want, got)) {
				t.Errorf("TargetsOf() = %v, want %v", got, tc.want)
			}
		})
	}
}
