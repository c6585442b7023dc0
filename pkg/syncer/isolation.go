package syncer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
)

const (
	supplyIsolation = "isolation"
	// isolationPrefix begins the names of policies that keep pods of other tenants out.
	isolationPrefix = "atoll-tenants-"
	// maxIsolating bounds these policies in one namespace, maxRestricting those of users that
	// are looked at for them: who writes either decides how much work that is.
	maxIsolating, maxRestricting = 32, 64
)

// Isolation are the NetworkPolicies of a physical namespace that keep pods of other logical
// clusters from those which no policy of a user restricts: policies add up, so that one for
// all pods would permit what users forbid.
//
// present are the policies there; those of nobody's mark are not among them. incomplete says
// that the users' are too many and too different for ours to have every other pod: the rest
// is as if there were none.
func Isolation(controlPlane string, in Space, permits boundary.Permits, present []*unstructured.Unstructured) (policies []*unstructured.Unstructured, incomplete bool) {
	if !permits.Network.Isolates() {
		return nil, false
	}
	var restricted [][]requirement
	for _, p := range present {
		if !IsSupply(controlPlane, p) && restrictsIngress(p) {
			restricted = append(restricted, requirementsOf(field(field(p.Object, "spec"), "podSelector")))
		}
	}
	if len(restricted) > maxRestricting {
		return nil, true
	}
	slices.SortFunc(restricted, func(a, b []requirement) int { return slices.CompareFunc(a, b, requirement.compare) })
	passage := boundary.Passage{Permits: permits, Tenant: boundary.Tenant(controlPlane, in.Cluster.String())}
	selectors, complete := complement(restricted, maxIsolating)
	for _, s := range selectors {
		spec := map[string]any{
			"podSelector": labelSelector(s),
			"policyTypes": []any{"Ingress"},
			"ingress":     []any{map[string]any{"from": passage.Neighbors()}},
		}
		content, err := json.Marshal(spec)
		if err != nil {
			panic(err) // nothing but maps, lists and texts
		}
		policy := supply(controlPlane, networkPolicies.Kind, in, isolationPrefix+hash(content), supplyIsolation)
		policy.SetAPIVersion(networkPolicies.Group + "/v1")
		policy.Object["spec"] = spec
		policies = append(policies, policy)
	}
	return policies, !complete
}

// NotIsolated is the failure to keep pods of other logical clusters out, without which no
// pods are made.
func NotIsolated(err error) *Failure {
	return &Failure{Reason: "NotIsolated", Message: bounded(err.Error())}
}

// IsolationCondition says whether namespaces of logical clusters get the policies.
//
//	the physical cluster     isolation  ranges of pods   namespaces that  then
//	                                                     lack some
//	does not answer          any        any              any              Unknown
//	answers                  None       any              any              False, NotWanted
//	serves no NetworkPolicy  Tenants    any              any              False, NotServed
//	serves them              Tenants    not known        any              False, PodNetworkUnknown
//	serves them              Tenants    known            some             False, Incomplete
//	serves them              Tenants    known            none             True
//
// Where the network is flat, the message says that pods elsewhere are not kept out.
func IsolationCondition(pc *fleetv1alpha1.PhysicalCluster, served bool, incomplete int, failure *Failure) metav1.Condition {
	network := pc.Permits().Network
	c := metav1.Condition{Type: fleetv1alpha1.ConditionIsolatingPolicies, ObservedGeneration: pc.Generation, Status: metav1.ConditionFalse}
	switch {
	case failure != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, failure.Reason, "the physical cluster does not answer"
	case network.Isolation == fleetv1alpha1.NetworkIsolationNone:
		c.Reason, c.Message = "NotWanted", "spec.tenancy.network.isolation is None: pods of all logical clusters reach each other, unless something else keeps them apart"
	case !served:
		c.Reason, c.Message = "NotServed", "the physical cluster has no NetworkPolicies: pods of all logical clusters reach each other, unless something else keeps them apart"
	case !network.Isolates():
		c.Reason, c.Message = "PodNetworkUnknown", "its nodes do not say which addresses pods have, or say too many ranges: pods of all logical clusters reach each other; set spec.tenancy.network.podCIDRs"
	case incomplete > 0:
		c.Reason = "Incomplete"
		c.Message = fmt.Sprintf("namespaces with so many different NetworkPolicies that some of their other pods are reached by other logical clusters: %d", incomplete)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, "Made"
		c.Message = "namespaces of logical clusters have NetworkPolicies against pods of others; who has an address in none of " +
			strings.Join(network.PodCIDRs, ", ") + ", or one in " + cmp.Or(strings.Join(network.NodeCIDRs, ", "), "no range of nodes") + ", counts as no pod; whether the network enforces them is not known"
		if flat := pc.Spec.Pods.Network; flat != "" {
			c.Message += "; pods on other physical clusters of the network " + flat + " count as none, and are not kept out"
		}
	}
	return c
}

// IsIsolating says that a policy below was made by Isolation.
func IsIsolating(controlPlane string, obj *unstructured.Unstructured) bool {
	return IsSupply(controlPlane, obj) && obj.GetLabels()[SupplyLabel] == supplyIsolation
}

// SameIsolation says that a policy is still what Isolation made under its name.
func SameIsolation(made, present *unstructured.Unstructured) bool {
	a, errA := json.Marshal(made.Object["spec"])
	b, errB := json.Marshal(present.Object["spec"])
	return errA == nil && errB == nil && string(a) == string(b)
}

// restrictsIngress: policies do, unless they say that they are of egress only.
func restrictsIngress(policy *unstructured.Unstructured) bool {
	types, _ := field(policy.Object, "spec")["policyTypes"].([]any)
	return len(types) == 0 || slices.Contains(types, any("Ingress"))
}
