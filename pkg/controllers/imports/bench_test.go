package imports

import (
	"fmt"
	"testing"
)

// BenchmarkPodsOf is what a look at a namespace takes of a logical cluster that is on many physical clusters, without a
// network, as by default, and with one that all are in.
func BenchmarkPodsOf(b *testing.B) {
	for _, network := range []string{"", "flat"} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("network=%s/clusters=%d", network, n), func(b *testing.B) {
				fleet, present := Fleet{}, []string(nil)
				for i := range n {
					name := fmt.Sprintf("c%04d", i)
					if present = append(present, name); network != "" {
						fleet[name] = Member{Network: network}
					}
				}
				for b.Loop() {
					if PodsOf(nil, nil, present, fleet) != nil {
						b.Fatal("there are no pods")
					}
				}
			})
		}
	}
}
