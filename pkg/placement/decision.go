package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Reasons why a physical cluster was not chosen.
const (
	ReasonNotPinned        = "NotPinned"
	ReasonPolicyMismatch   = "PolicyMismatch"
	ReasonDeleting         = "Deleting"
	ReasonForgotten        = "Forgotten"
	ReasonCordoned         = "Cordoned"
	ReasonDraining         = "Draining"
	ReasonNotReady         = "NotReady"
	ReasonReadyUnknown     = "ReadyUnknown"
	ReasonUnreachable      = "Unreachable"
	ReasonNotSyncing       = "NotSyncing"
	ReasonUntoleratedTaint = "UntoleratedTaint"
	ReasonNotPermitted     = "NotPermitted"
	ReasonAPINotServed     = "APINotServed"
	ReasonNoStorageClass   = "NoStorageClass"
	ReasonNoRuntimeClass   = "NoRuntimeClass"
	ReasonNoIngressClass   = "NoIngressClass"
	ReasonNoPriorityClass  = "NoPriorityClass"
	ReasonBoundsExceeded   = "BoundsExceeded"
	ReasonInsufficient     = "InsufficientCapacity"
	ReasonLessFree         = "LessFree"
	ReasonNotNeeded        = "NotNeeded"
	ReasonTooFew           = "TooFew"
	ReasonInvalidPolicy    = "InvalidPolicy"
	ReasonAffinity         = "Affinity"
	ReasonAntiAffinity     = "AntiAffinity"
	ReasonNoTopologyLabel  = "NoTopologyLabel"
	ReasonLessPreferred    = "LessPreferred"
	ReasonLowerScore       = "LowerScore"
	ReasonTooMany          = "TooMany"
	// ReasonUnheard: it is not known what others have reserved there.
	ReasonUnheard = "ReservationsUnknown"
	// ReasonBound: another scheduler has bound the unit elsewhere.
	ReasonBound = "Bound"
)

// Decision is the outcome of Decide.
type Decision struct {
	// PhysicalClusters are the chosen physical clusters, sorted; none if what is wanted
	// cannot be had.
	PhysicalClusters []string
	// Wanted says how many were wanted, and how they are laid out.
	Wanted string
	// Excess says that more were wanted than a policy permits.
	Excess string
	// Rejected has every other physical cluster, sorted by name; if another scheduler
	// decides, those that do not fit.
	Rejected []Rejection
	// Scheduler is who decides, if that is another one. Permitted are the physical clusters
	// that fit then, the best first, and Unmet is why what it wants is not permitted.
	Scheduler string
	Permitted []string
	Unmet     string
	// Policies are the policies that were heard, in the order of precedence.
	Policies []placementv1alpha1.PolicyReference
	// Refuse says that an object that cannot be placed shall be refused.
	Refuse bool
	// Division is how replicas are divided over the chosen; nil: each has all.
	Division *placementv1alpha1.DecidedDivision
	// Overrides are what changes of the copies on the chosen, in order.
	Overrides []placementv1alpha1.DecidedOverride
	// Rollout has the waves in which changes reach them; nil: all at once.
	Rollout *placementv1alpha1.DecidedRollout
	// Requests is what the unit requests on each of the chosen.
	Requests corev1.ResourceList
	// Move says how the unit moves, if a policy says.
	Move placementv1alpha1.MoveRules
	// Until is when what is decided may stay no longer where it is, as things are; zero:
	// for ever.
	Until time.Time
	// Pin repeats the pin of the unit, Known whether it names a candidate.
	Pin      string
	PinKnown bool
}

// Rejection says why one physical cluster was not chosen.
type Rejection struct {
	PhysicalCluster, Reason string
	// format and args are the message, which is worded when somebody reads it: of a thousand
	// nobody reads more than some.
	format string
	args   []any
}

// NewRejection is one with a message as fmt.Sprintf has it; what is among args must not change any more.
func NewRejection(physicalCluster, reason, format string, args ...any) Rejection {
	return Rejection{PhysicalCluster: physicalCluster, Reason: reason, format: format, args: args}
}

// Message is the sentence for people.
func (r Rejection) Message() string { return fmt.Sprintf(r.format, r.args...) }

// API is the rejection as a status has it.
func (r Rejection) API() placementv1alpha1.RejectedPhysicalCluster {
	return placementv1alpha1.RejectedPhysicalCluster{PhysicalCluster: r.PhysicalCluster, Reason: r.Reason, Message: r.Message()}
}

// nameList is joined when somebody reads them.
type nameList []string

func (n nameList) String() string { return strings.Join(n, ", ") }

// Possible reports whether the unit can be placed.
func (d Decision) Possible() bool { return len(d.PhysicalClusters) > 0 }

// maxExplained bounds how many rejections Message spells out.
const maxExplained = 10

// Message is one sentence for people: where the unit goes, or why it cannot go
// anywhere.
func (d Decision) Message() string {
	if d.Possible() {
		return "placed on " + strings.Join(d.PhysicalClusters, ", ")
	}
	if d.Scheduler != "" {
		return d.awaited()
	}
	var b strings.Builder
	switch {
	case d.Pin != "" && !d.PinKnown:
		fmt.Fprintf(&b, "there is no physical cluster %q, which the annotation %s asks for", d.Pin, placementv1alpha1.PhysicalClusterAnnotation)
		return b.String()
	case len(d.Rejected) == 0:
		return "no physical cluster is registered"
	case d.Excess != "":
		return d.Excess
	case d.Wanted != (shape{count: 1, least: 1}).String() && d.Wanted != (shape{count: everywhere, least: 1}).String(): // one is enough
		fmt.Fprintf(&b, "%s are wanted and too few fit", d.Wanted)
	default:
		b.WriteString("no physical cluster fits")
	}
	for i, r := range d.Rejected {
		if i == maxExplained {
			fmt.Fprintf(&b, "; and %d more", len(d.Rejected)-i)
			break
		}
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, r.PhysicalCluster, r.Message())
	}
	return b.String()
}

// API is the decision as a Placement stores it; nil if it is impossible.
func (d Decision) API() *placementv1alpha1.Decision {
	if !d.Possible() {
		return nil
	}
	out := &placementv1alpha1.Decision{
		Policies:      slices.Clone(d.Policies),
		Division:      d.Division,
		Overrides:     d.Overrides,
		Rollout:       d.Rollout,
		SchedulerName: cmp.Or(d.Scheduler, placementv1alpha1.DefaultScheduler),
	}
	for _, name := range d.PhysicalClusters {
		out.PhysicalClusters = append(out.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: name, Requests: d.Requests})
	}
	return out
}

// maxRejected bounds how many rejections a Placement keeps: there are many Placements.
const maxRejected = 30

// RejectedAPI is Rejected as the status of a Placement has it: the first by name.
func (d Decision) RejectedAPI() []placementv1alpha1.RejectedPhysicalCluster {
	var out []placementv1alpha1.RejectedPhysicalCluster
	for _, r := range d.Rejected[:min(len(d.Rejected), maxRejected)] {
		out = append(out, r.API())
	}
	return out
}
