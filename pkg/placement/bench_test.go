package placement

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// BenchmarkDecide decides one unit among physical clusters of ten regions with ten
// zones each: without a policy, and with one of each level.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for name, policies := range map[string][]Policy{"none": nil, "three": benchPolicies()} {
			b.Run(fmt.Sprintf("clusters=%d/policies=%s", n, name), func(b *testing.B) {
				s, u := Snapshot{PhysicalClusters: benchClusters(n), Policies: policies}, Unit{
					Namespace: "web", Needs: Needs{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, APIs: []string{"apps/v1/deployments"}},
				}
				b.ReportAllocs()
				for b.Loop() {
					if d := Decide(s, u); !d.Possible() {
						b.Fatal(d.Message())
					}
				}
			})
		}
	}
}

func benchPolicies() []Policy {
	return []Policy{
		{PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyGlobal, Name: "g"}, Rules: &placementv1alpha1.PolicyRules{
			Terms:       []placementv1alpha1.PhysicalClusterTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "generation", Operator: corev1.NodeSelectorOpGt, Values: []string{"1"}}}}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}},
		{PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyLogicalCluster, Name: "l"}, Rules: &placementv1alpha1.PolicyRules{
			Weights: []placementv1alpha1.Weight{{Weight: -1, Label: "cost"}, {Weight: 1, Free: corev1.ResourceCPU}},
		}},
		{PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyNamespace, Name: "n"}, Rules: &placementv1alpha1.PolicyRules{
			Topology: []placementv1alpha1.TopologyTier{{Key: "region", Count: ptr.To[int32](2)}, {Key: "zone", Count: ptr.To[int32](3), MinCount: ptr.To[int32](1)}},
		}},
	}
}

func benchClusters(n int) []PhysicalCluster {
	out := make([]PhysicalCluster, 0, n)
	for i := range n {
		c := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%04d", i), Labels: map[string]string{
			"region": fmt.Sprint(i % 10), "zone": fmt.Sprint(i / 10 % 10), "generation": fmt.Sprint(2 + i%3), "cost": fmt.Sprintf("%d.5", i%7),
		}}}
		c.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		c.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi")}
		c.Status.Requested = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(i%60), resource.DecimalSI)}
		for k := range 60 { // as a cluster serves
			c.Status.APIs = append(c.Status.APIs, fmt.Sprintf("example%d.org/v1/things", k))
		}
		c.Status.APIs = append(c.Status.APIs, "apps/v1/deployments")
		taken := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(100*i%9000), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi")}
		out = append(out, PhysicalCluster{PhysicalCluster: c, Placements: i % 20, LetIn: taken, Assumed: taken})
	}
	return out
}

// BenchmarkMoves asks of a unit on two physical clusters whether an edit of a policy moves it.
func BenchmarkMoves(b *testing.B) {
	policies := benchPolicies()
	policies[2].Rules = &placementv1alpha1.PolicyRules{Count: ptr.To[int32](2)}
	old, edited := policies[0], policies[0]
	edited.Rules = &placementv1alpha1.PolicyRules{Terms: []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": "1"}}}}
	s, u := Snapshot{PhysicalClusters: benchClusters(2), Policies: policies}, Unit{Name: placementv1alpha1.NamespaceUnit, Namespace: "web", Decided: []string{"c0000", "c0001"}}
	b.ReportAllocs()
	for b.Loop() {
		if !(Edit{&old, &edited}).Moves(s, u, nil) {
			b.Fatal("it stays")
		}
	}
}
