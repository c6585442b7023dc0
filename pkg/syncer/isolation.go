package syncer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
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
		if !IsSupply(controlPlane, p) && restricts(p, networkingv1.PolicyTypeIngress) {
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
//	the physical cluster     isolation  ranges of pods        namespaces that  then
//	                                    here       elsewhere  are open
//	does not answer          any        any        any        any              Unknown
//	answers                  None       any        any        any              False, NotWanted
//	serves no NetworkPolicy  Tenants    any        any        any              False, NotServed
//	serves them              Tenants    not known  any        any              False, PodNetworkUnknown
//	serves them              Tenants    known      nobody     any              Unknown, NetworkUnknown
//	                                               said yet
//	serves them              Tenants    known      not known  any              False, PodNetworkUnknown
//	serves them              Tenants    known      the same   any              False, PodRangesOverlap
//	serves them              Tenants    known      known      some             False, Incomplete
//	serves them              Tenants    known      known      none             True
//
// Elsewhere is on the other physical clusters of its network, if it is in one.
func IsolationCondition(pc *fleetv1alpha1.PhysicalCluster, served bool, lacking Lacking, failure *Failure) metav1.Condition {
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
	case pc.Spec.Pods.Network != "" && pc.Status.Network == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NetworkUnknown", "which addresses pods have on other physical clusters of the network "+pc.Spec.Pods.Network+" is not known yet"
	case pc.Spec.Pods.Network != "" && len(pc.Status.Network.Unknown) > 0:
		c.Reason = "PodNetworkUnknown"
		c.Message = "which addresses pods have on other physical clusters of the network " + pc.Spec.Pods.Network + " is not known, or does not count: pods of other logical clusters get in from " +
			listed(pc.Status.Network.Unknown) + "; set spec.tenancy.network.podCIDRs of these"
	case pc.Spec.Pods.Network != "" && len(pc.Status.Network.Overlapping) > 0:
		c.Reason = "PodRangesOverlap"
		c.Message = "addresses of pods here may be those of pods on other physical clusters of the network " + pc.Spec.Pods.Network + ", and whose they are nobody can tell: " +
			listed(pc.Status.Network.Overlapping) + "; give each ranges of its own, or take one out of the network"
	case lacking.Open > 0:
		c.Reason = "Incomplete"
		c.Message = fmt.Sprintf("namespaces with so many different NetworkPolicies that some of their other pods are reached by other logical clusters: %d", lacking.Open)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, "Made"
		c.Message = "namespaces of logical clusters have NetworkPolicies against pods of others; who has an address in none of " +
			strings.Join(network.PodCIDRs, ", ") + ", or one in " + cmp.Or(strings.Join(network.NodeCIDRs, ", "), "no range of nodes") + ", counts as no pod; whether the network enforces them is not known"
		if flat := pc.Spec.Pods.Network; flat != "" {
			c.Message += "; pods on other physical clusters of the network " + flat + " are distinguished from others by their addresses"
		}
	}
	if lacking.Closed > 0 {
		c.Message += fmt.Sprintf("; namespaces whose pods are not reached by all pods of their logical cluster on other physical clusters that may, as these are too many: %d", lacking.Closed)
	}
	return c
}

// Lacking counts namespaces whose policies are not all that they should be: pods of other logical
// clusters get in (Open), or some of the own one on other physical clusters do not (Closed).
type Lacking struct{ Open, Closed int }

// maxListed bounds the names in a message.
const maxListed = 10

// listed is a list of names that is not too long to be read.
func listed(names []string) string {
	text := strings.Join(names[:min(len(names), maxListed)], ", ")
	if more := len(names) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// IsIsolating says that a policy below was made by Isolation.
func IsIsolating(controlPlane string, obj *unstructured.Unstructured) bool {
	return IsSupply(controlPlane, obj) && obj.GetLabels()[SupplyLabel] == supplyIsolation
}

// SamePolicy says that a policy is still what was made under its name.
func SamePolicy(made, present *unstructured.Unstructured) bool {
	a, errA := json.Marshal(made.Object["spec"])
	b, errB := json.Marshal(present.Object["spec"])
	return errA == nil && errB == nil && string(a) == string(b)
}

// restricts says whether a policy is of a type: if it says none, of ingress, and of egress if it
// has rules of that.
func restricts(policy *unstructured.Unstructured, policyType networkingv1.PolicyType) bool {
	spec := field(policy.Object, "spec")
	types, _ := spec["policyTypes"].([]any)
	if len(types) == 0 {
		return policyType == networkingv1.PolicyTypeIngress || len(list(spec, "egress")) > 0
	}
	return slices.Contains(types, any(string(policyType)))
}
