package fairness

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

type level struct {
	priority *flowcontrolv1.PriorityLevelConfiguration
	schema   *flowcontrolv1.FlowSchema
}

// levels: syncers before tenants, so that a flood of tenants does not make
// physical clusters look silent; and their Leases before all else that syncers do, as
// whoever cannot renew his Lease must stop writing. What they ask about pods takes as long as
// the webhooks of tenants do: it has places of its own, in which each logical cluster is a flow.
func levels() []level {
	return []level{
		pods(newLevel("atoll-pods", 900, 50, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, auth.SyncersGroup)),
		leases(newLevel("atoll-syncer-leases", 500, 10, flowcontrolv1.FlowDistinguisherMethodByUserType, auth.SyncersGroup)),
		newLevel("atoll-syncers", 1000, 50, flowcontrolv1.FlowDistinguisherMethodByUserType, auth.SyncersGroup),
		newLevel("atoll-logical-clusters", 5000, 200, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, user.AllAuthenticated, user.AllUnauthenticated),
	}
}

// leases narrows a level to the Leases in root; to a FlowSchema, the namespace of a
// request is its logical cluster.
func leases(l level) level {
	rules := &l.schema.Spec.Rules[0]
	rules.ResourceRules = []flowcontrolv1.ResourcePolicyRule{{
		Verbs: []string{"get", "create", "update"}, APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
		Namespaces: []string{scope.Root.String()},
	}}
	rules.NonResourceRules = nil
	return l
}

// pods narrows a level to what logical clusters are asked about pods.
func pods(l level) level {
	rules := &l.schema.Spec.Rules[0]
	rules.ResourceRules = []flowcontrolv1.ResourcePolicyRule{{
		Verbs: []string{"create"}, APIGroups: []string{placementv1alpha1.GroupName}, Resources: []string{"podreviews"},
		Namespaces: []string{flowcontrolv1.NamespaceEvery},
	}}
	rules.NonResourceRules = nil
	return l
}

func newLevel(name string, precedence, shares int32, by flowcontrolv1.FlowDistinguisherMethodType, groups ...string) level {
	everything := flowcontrolv1.PolicyRulesWithSubjects{
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"},
			ClusterScope: true, Namespaces: []string{flowcontrolv1.NamespaceEvery}}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
	}
	for _, group := range groups {
		everything.Subjects = append(everything.Subjects, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: group}})
	}
	return level{
		priority: &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LimitResponse: flowcontrolv1.LimitResponse{
				Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 256, HandSize: 4, QueueLengthLimit: 100}}},
		}},
		schema: &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         precedence, DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{Type: by},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{everything},
		}},
	}
}
