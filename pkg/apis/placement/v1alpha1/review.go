package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementReview asks where a unit of the namespace that it is in would go, and why. It can only
// be created; the answer is in the reply, and nothing is stored.
type PlacementReview struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PlacementReviewSpec `json:"spec,omitempty"`
	// +optional
	Status PlacementReviewStatus `json:"status,omitempty"`
}

// PlacementReviewSpec says what to suppose.
type PlacementReviewSpec struct {
	// unit is the name of the Placement, or of the PlacementPolicy that makes the unit.
	// Default: that of object, else "namespace", which is all that no policy selects.
	// +optional
	Unit string `json:"unit,omitempty"`
	// object is one that would be applied beside those that are there: it needs
	// resources, storage classes and APIs.
	// +optional
	Object *runtime.RawExtension `json:"object,omitempty"`
	// policy is one that the namespace would have beside those that it has.
	// +optional
	Policy *PolicyRules `json:"policy,omitempty"`
	// replaces names the policy in whose place policy would be, which has its level and
	// name then. Without policy, it would not be there any more. It need not exist.
	// +optional
	Replaces *PolicyName `json:"replaces,omitempty"`
	// without are physical clusters that would not be there any more.
	// +optional
	// +listType=atomic
	Without []string `json:"without,omitempty"`
	// drained are physical clusters that would be drained: nothing may come there or stay.
	// +optional
	// +listType=atomic
	Drained []string `json:"drained,omitempty"`
	// assumed is what other units would have taken of physical clusters by then, and these do
	// not report yet: the sums of what earlier answers say. It counts for this answer only. Who
	// asks about several units asks one after the other, and adds up status.requests.
	// +optional
	// +listType=map
	// +listMapKey=physicalCluster
	Assumed []AssumedRequests `json:"assumed,omitempty"`
	// anew asks as if the namespace were not placed yet: what it has counts for
	// nothing.
	// +optional
	Anew bool `json:"anew,omitempty"`
	// return asks where the unit would return to, if policies let it: what it has comes after
	// preferences, not before.
	// +optional
	Return bool `json:"return,omitempty"`
}

// AssumedRequests is what units that are on none of them yet would take of a physical cluster.
type AssumedRequests struct {
	PhysicalCluster string `json:"physicalCluster"`
	// units is how many there are. Only admins of all logical clusters may say it: how many
	// others have there is no tenant's business.
	// +optional
	Units int32 `json:"units,omitempty"`
	// requests are what all of them request.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// PolicyName names a policy.
type PolicyName struct {
	// level is Global, LogicalCluster or Namespace.
	Level PolicyLevel `json:"level"`
	Name  string      `json:"name"`
}

// PlacementReviewStatus is the answer.
type PlacementReviewStatus struct {
	// unit is the one that is meant: the name of its Placement.
	// +optional
	Unit string `json:"unit,omitempty"`
	// decided is where the namespace is now.
	// +optional
	// +listType=atomic
	Decided []string `json:"decided,omitempty"`
	// physicalClusters are where it would go; none if it can go nowhere.
	// +optional
	// +listType=atomic
	PhysicalClusters []string `json:"physicalClusters,omitempty"`
	// schedulerName is the scheduler that decides, if that is not this server. It goes
	// nowhere then before it is bound.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
	// requests are what it needs on each of them: the sum over its objects.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// permitted are, if another scheduler decides, the physical clusters that it may bind
	// each by itself, the best first as this server would have it.
	// +optional
	// +listType=atomic
	Permitted []string `json:"permitted,omitempty"`
	// division is how replicas would be divided over them; absent: each has all.
	// +optional
	Division *DecidedDivision `json:"division,omitempty"`
	// overrides are what would change of copies on them, in order.
	// +optional
	// +listType=atomic
	Overrides []DecidedOverride `json:"overrides,omitempty"`
	// rollout has the waves in which changes would reach them.
	// +optional
	Rollout *DecidedRollout `json:"rollout,omitempty"`
	// shares are the replicas that spec.object would have on each of them; none if they
	// are not divided.
	// +optional
	// +listType=map
	// +listMapKey=physicalCluster
	Shares []ReplicaShare `json:"shares,omitempty"`
	// obstacles are what keeps the namespace from moving there, as sentences; the first
	// 20. It does not move as long as there is one.
	// +optional
	// +listType=atomic
	Obstacles []string `json:"obstacles,omitempty"`
	// stopsFirst are the objects, as <kind> <name>, that must not run twice: in a move
	// each is stopped before it is started; the first 20.
	// +optional
	// +listType=atomic
	StopsFirst []string `json:"stopsFirst,omitempty"`
	MoveTimes  `json:",inline"`
	// move is whether policies let the namespace be moved.
	// +optional
	Move MoveMode `json:"move,omitempty"`
	// message is the sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
	// policies are those that were heard, the most specific first.
	// +optional
	// +listType=atomic
	Policies []PolicyReference `json:"policies,omitempty"`
	// rejected has the reason for each physical cluster that was not chosen.
	// +optional
	// +listType=atomic
	Rejected []RejectedPhysicalCluster `json:"rejected,omitempty"`
}
