package reserve

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// BenchmarkNote notes what others take for one decision and counts its reservation, as admission does: with what
// is decided, and with what was reserved within the last minute.
func BenchmarkNote(b *testing.B) {
	for _, n := range []struct{ physicalClusters, decided, reserved int }{
		{1000, 0, 0}, {1000, 1000, 0}, {1000, 100_000, 0}, {1000, 100_000, 6000}, {1000, 100_000, 60_000}, {10, 100_000, 60_000},
	} {
		b.Run(fmt.Sprintf("clusters=%d/decided=%d/reserved=%d", n.physicalClusters, n.decided, n.reserved), func(b *testing.B) {
			l, s := NewLedger(), placement.Snapshot{}
			name := func(i int) string { return fmt.Sprintf("c%04d", i%n.physicalClusters) }
			for i := range n.physicalClusters {
				s.PhysicalClusters = append(s.PhysicalClusters, placement.PhysicalCluster{
					PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name(i)}},
				})
			}
			requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
			for i := range n.decided {
				p := stored(strconv.Itoa(i), strconv.Itoa(i+1))
				p.Spec.Decision = placement.Decision{PhysicalClusters: []string{name(i)}, Requests: requests}.API()
				if i < n.reserved {
					p.Spec.Reservation = On([]string{name(i)}, requests, start)
				}
				l.Observe(nil, p, start, true)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				asked := unit("asked")
				l.Note(s, asked, start.Add(time.Second))
				l.Assume(asked, On([]string{name(i)}, requests, start), start)
				l.Forget(asked)
			}
		})
	}
}
