package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rollout has changes of what runs reach some physical clusters before others. What is
// staged is the content of Deployments, StatefulSets, DaemonSets, ConfigMaps and Secrets: all
// but metadata, status and the number of replicas.
type Rollout struct {
	// waves are in order: the first one gets a change at once, the others when those before
	// are healthy. A physical cluster is in the first wave that selects it; what none selects is
	// a last wave.
	// +listType=atomic
	Waves []RolloutWave `json:"waves"`
}

// RolloutWave selects physical clusters of a unit.
type RolloutWave struct {
	// term selects physical clusters by their labels; absent: all that are left.
	// +optional
	Term *PhysicalClusterTerm `json:"term,omitempty"`
	// count is how many of these, the first by name; absent: all.
	// +optional
	Count *int32 `json:"count,omitempty"`
	// soakSeconds is how long this wave, and those before, have to be healthy without a break
	// before the next one begins. Default 0, at most 604800, which is a week.
	// +optional
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
	// approval says what the wave begins with: Automatic (the default: those before are
	// healthy, and have soaked) or Manual (a person approves as well).
	// +optional
	Approval RolloutApproval `json:"approval,omitempty"`
}

// RolloutApproval says whether a wave waits for a person.
type RolloutApproval string

const (
	ApprovalAutomatic RolloutApproval = "Automatic"
	ApprovalManual    RolloutApproval = "Manual"
)

// DecidedRollout are the waves of a policy over the physical clusters of a decision.
type DecidedRollout struct {
	// waves have one physical cluster at least, each, and together all of the decision.
	// +listType=atomic
	Waves []DecidedWave `json:"waves"`
}

// DecidedWave is one of them.
type DecidedWave struct {
	// physicalClusters are sorted by name.
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters"`
	// +optional
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
	// +optional
	Approval RolloutApproval `json:"approval,omitempty"`
}

// RolloutStatus is how far a change is that is under way.
type RolloutStatus struct {
	// revision names all that is under way: it changes with each change. An approval names it.
	Revision string `json:"revision"`
	// wave is the number of the last wave that has the change; 0: none has. Of waves.
	Wave  int32 `json:"wave"`
	Waves int32 `json:"waves"`
	// objects that are under way: the first few, KIND/NAME.
	// +optional
	// +listType=atomic
	Objects []string `json:"objects,omitempty"`
	// healthySince is since when all waves that have it were seen to be healthy; absent while
	// they are not.
	// +optional
	HealthySince *metav1.Time `json:"healthySince,omitempty"`
}
