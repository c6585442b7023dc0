package placement

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Bounds of what a policy may say: deciding costs as much for everybody.
const (
	maxTerms       = 16
	maxLabels      = 16
	maxExpressions = 8
	maxValues      = 16
	maxTolerations = 16
	maxAffinity    = 8
	maxTiers       = 4
	maxWeights     = 8
	maxCount       = 64
	maxWeight      = 100
	maxKinds       = 16
	maxNames       = 64
	// maxDrainSeconds is a day.
	maxDrainSeconds   = 24 * 60 * 60
	maxReadySeconds   = 600
	maxReplicaTargets = 16
	maxReplicaWeight  = 1000
	// maxReplicas bounds the minimum and the maximum for one physical cluster.
	maxReplicas = 100_000
)

// ValidateClusterPolicy checks a ClusterPlacementPolicy; path is that of the spec.
// global says that it is in "root".
func ValidateClusterPolicy(spec *placementv1alpha1.PolicySpec, global bool, path *field.Path) field.ErrorList {
	errs := validateSelector(spec.LogicalClusterSelector, path.Child("logicalClusterSelector"))
	if spec.LogicalClusterSelector != nil && !global {
		errs = append(errs, field.Forbidden(path.Child("logicalClusterSelector"), `only policies in "root" are for several logical clusters; leave it out`))
	}
	errs = append(errs, validateSelector(spec.NamespaceSelector, path.Child("namespaceSelector"))...)
	if n := spec.MaxMoving; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(path.Child("maxMoving"), *n, "must be at least 1; to keep everything where it is, say move: {mode: Never}"))
	}
	if n := spec.ConfirmAbove; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("confirmAbove"), *n, "must be 0 or more"))
	}
	return append(errs, validateRules(&spec.PolicyRules, global && spec.LogicalClusterSelector != nil, path)...)
}

// ValidateNamespacePolicy checks the PlacementPolicy of a name; path is that of the spec.
func ValidateNamespacePolicy(name string, spec *placementv1alpha1.PlacementPolicySpec, path *field.Path) field.ErrorList {
	errs := ValidateRules(&spec.PolicyRules, path)
	o := spec.Objects
	if o == nil {
		return errs
	}
	at := path.Child("objects")
	if name == placementv1alpha1.NamespaceUnit {
		errs = append(errs, field.Forbidden(at, fmt.Sprintf("the unit %q is what no policy selects; call the policy otherwise", name)))
	}
	return append(errs, validateObjects(o, at)...)
}

func validateObjects(o *placementv1alpha1.ObjectSelection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(o.Kinds)+len(o.Names) == 0 && emptySelector(o.LabelSelector) {
		errs = append(errs, field.Required(at, "kinds, names or labelSelector say which objects; for the whole namespace leave objects out"))
	}
	errs = append(errs, atMost(len(o.Kinds), maxKinds, at.Child("kinds"))...)
	for i, k := range o.Kinds {
		errs = append(errs, validateKind(k, at.Child("kinds").Index(i))...)
	}
	errs = append(errs, atMost(len(o.Names), maxNames, at.Child("names"))...)
	for i, n := range o.Names {
		for _, problem := range validation.IsDNS1123Subdomain(n) {
			errs = append(errs, field.Invalid(at.Child("names").Index(i), n, problem))
		}
	}
	return append(errs, validateSelector(o.LabelSelector, at.Child("labelSelector"))...)
}

func emptySelector(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

func validateKind(k placementv1alpha1.ObjectKind, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if k.Group != "" {
		for _, problem := range validation.IsDNS1123Subdomain(k.Group) {
			errs = append(errs, field.Invalid(path.Child("group"), k.Group, problem))
		}
	}
	if k.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), "such as Deployment"))
	}
	for _, problem := range validation.IsDNS1035Label(strings.ToLower(k.Kind)) {
		errs = append(errs, field.Invalid(path.Child("kind"), k.Kind, problem))
	}
	return errs
}

// ValidateRules checks the rules of a policy of a tenant.
func ValidateRules(r *placementv1alpha1.PolicyRules, path *field.Path) field.ErrorList {
	return validateRules(r, false, path)
}

func validateRules(r *placementv1alpha1.PolicyRules, mayPermit bool, path *field.Path) field.ErrorList {
	errs := validateTerms(r.Terms, path.Child("terms"))
	errs = append(errs, atMost(len(r.Tolerations), maxTolerations, path.Child("tolerations"))...)
	for i, t := range r.Tolerations {
		errs = append(errs, validateToleration(t, path.Child("tolerations").Index(i))...)
	}
	errs = append(errs, validateAffinity(r.Affinity, path.Child("affinity"))...)
	errs = append(errs, validateCount(r.MaxCount, path.Child("maxCount"))...)
	errs = append(errs, validateShape(r, path)...)
	errs = append(errs, validateTerms(r.Preferences, path.Child("preferences"))...)
	errs = append(errs, validateWeights(r.Weights, path.Child("weights"))...)
	switch r.IfImpossible {
	case "", placementv1alpha1.ImpossiblePending, placementv1alpha1.ImpossibleRefuse:
	default:
		errs = append(errs, field.NotSupported(path.Child("ifImpossible"), r.IfImpossible,
			[]placementv1alpha1.Impossible{placementv1alpha1.ImpossiblePending, placementv1alpha1.ImpossibleRefuse}))
	}
	if r.SchedulerName != "" {
		for _, problem := range validation.IsDNS1123Subdomain(r.SchedulerName) {
			errs = append(errs, field.Invalid(path.Child("schedulerName"), r.SchedulerName, problem))
		}
	}
	errs = append(errs, validateReplicas(r.Replicas, path.Child("replicas"))...)
	errs = append(errs, validateOverrides(r.Overrides, mayPermit, path.Child("overrides"))...)
	errs = append(errs, validateRollout(r.Rollout, path.Child("rollout"))...)
	return append(errs, validateMove(r.Move, path.Child("move"))...)
}

func validateMove(m *placementv1alpha1.MoveRules, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	switch m.Mode {
	case "", placementv1alpha1.MoveAuto, placementv1alpha1.MoveNever:
	default:
		errs = append(errs, field.NotSupported(path.Child("mode"), m.Mode,
			[]placementv1alpha1.MoveMode{placementv1alpha1.MoveAuto, placementv1alpha1.MoveNever}))
	}
	switch m.Return {
	case "", placementv1alpha1.ReturnNever, placementv1alpha1.ReturnWhenPreferred:
	default:
		errs = append(errs, field.NotSupported(path.Child("return"), m.Return,
			[]placementv1alpha1.MoveReturn{placementv1alpha1.ReturnNever, placementv1alpha1.ReturnWhenPreferred}))
	}
	if n := m.ReturnAfterSeconds; n != nil && (*n < minReturnSeconds || *n > maxReturnSeconds) {
		errs = append(errs, field.Invalid(path.Child("returnAfterSeconds"), *n, fmt.Sprintf("must be between %d and %d", minReturnSeconds, maxReturnSeconds)))
	}
	switch m.IfStuck {
	case "", placementv1alpha1.IfStuckWait, placementv1alpha1.IfStuckGoBack:
	default:
		errs = append(errs, field.NotSupported(path.Child("ifStuck"), m.IfStuck,
			[]placementv1alpha1.IfStuck{placementv1alpha1.IfStuckWait, placementv1alpha1.IfStuckGoBack}))
	}
	if n := m.StuckAfterSeconds; n != nil && (*n < minStuckSeconds || *n > maxStuckSeconds) {
		errs = append(errs, field.Invalid(path.Child("stuckAfterSeconds"), *n, fmt.Sprintf("must be between %d and %d", minStuckSeconds, maxStuckSeconds)))
	}
	if n := m.MinReadySeconds; n != nil && (*n < 0 || *n > maxReadySeconds) {
		errs = append(errs, field.Invalid(path.Child("minReadySeconds"), *n, fmt.Sprintf("must be between 0 and %d", maxReadySeconds)))
	}
	if n := m.DrainSeconds; n != nil && (*n < 0 || *n > maxDrainSeconds) {
		errs = append(errs, field.Invalid(path.Child("drainSeconds"), *n, fmt.Sprintf("must be between 0 and %d", maxDrainSeconds)))
	}
	return errs
}

func validateAffinity(list []placementv1alpha1.UnitAffinity, path *field.Path) field.ErrorList {
	errs := atMost(len(list), maxAffinity, path)
	for i, a := range list {
		at := path.Index(i)
		if a.Type != placementv1alpha1.AffinityWith && a.Type != placementv1alpha1.AffinityWithout {
			errs = append(errs, field.NotSupported(at.Child("type"), a.Type,
				[]placementv1alpha1.AffinityType{placementv1alpha1.AffinityWith, placementv1alpha1.AffinityWithout}))
		}
		errs = append(errs, validateSelector(&list[i].NamespaceSelector, at.Child("namespaceSelector"))...)
		if len(a.NamespaceSelector.MatchLabels)+len(a.NamespaceSelector.MatchExpressions) == 0 {
			errs = append(errs, field.Required(at.Child("namespaceSelector"), "says which other namespaces"))
		}
		if a.TopologyKey != "" {
			errs = append(errs, metav1validation.ValidateLabelName(a.TopologyKey, at.Child("topologyKey"))...)
		}
	}
	return errs
}

func validateCount(n *int32, path *field.Path) field.ErrorList {
	if n != nil && (*n < 1 || *n > maxCount) {
		return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("must be between 1 and %d", maxCount))}
	}
	return nil
}

// validateMinimum: more than count would never be reached.
func validateMinimum(count, minimum *int32, otherwise int32, path *field.Path) field.ErrorList {
	errs := append(validateCount(count, path.Child("count")), validateCount(minimum, path.Child("minCount"))...)
	if minimum != nil && *minimum > ptr.Deref(count, otherwise) {
		errs = append(errs, field.Invalid(path.Child("minCount"), *minimum, fmt.Sprintf("must not be more than count (%d)", ptr.Deref(count, otherwise))))
	}
	return errs
}

func validateShape(r *placementv1alpha1.PolicyRules, path *field.Path) field.ErrorList {
	errs := validateMinimum(r.Count, r.MinCount, 1, path)
	errs = append(errs, atMost(len(r.Topology), maxTiers, path.Child("topology"))...)
	keys := map[string]bool{}
	for i, t := range r.Topology {
		at := path.Child("topology").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		if keys[t.Key] {
			errs = append(errs, field.Duplicate(at.Child("key"), t.Key))
		}
		keys[t.Key] = true
		errs = append(errs, validateMinimum(t.Count, t.MinCount, maxCount, at)...)
	}
	if r.Spread == nil {
		return errs
	}
	at := path.Child("spread")
	if len(r.Topology) > 0 {
		errs = append(errs, field.Forbidden(at, "topology says already how they are laid out; use one of the two"))
	}
	errs = append(errs, metav1validation.ValidateLabelName(r.Spread.Key, at.Child("key"))...)
	if r.Spread.MaxSkew < 1 || r.Spread.MaxSkew > maxCount {
		errs = append(errs, field.Invalid(at.Child("maxSkew"), r.Spread.MaxSkew, fmt.Sprintf("must be between 1 and %d", maxCount)))
	}
	return errs
}

func validateWeights(weights []placementv1alpha1.Weight, path *field.Path) field.ErrorList {
	errs := atMost(len(weights), maxWeights, path)
	for i, w := range weights {
		at := path.Index(i)
		if w.Weight == 0 || w.Weight > maxWeight || w.Weight < -maxWeight {
			errs = append(errs, field.Invalid(at.Child("weight"), w.Weight, fmt.Sprintf("must be between -%d and %d, and not 0", maxWeight, maxWeight)))
		}
		said := 0
		if w.Term != nil {
			said++
			errs = append(errs, validateTerm(*w.Term, at.Child("term"))...)
		}
		if w.Label != "" {
			said++
			errs = append(errs, metav1validation.ValidateLabelName(w.Label, at.Child("label"))...)
		}
		if w.Free != "" {
			said++
			for _, problem := range validation.IsQualifiedName(string(w.Free)) {
				errs = append(errs, field.Invalid(at.Child("free"), w.Free, problem))
			}
		}
		if said != 1 {
			errs = append(errs, field.Invalid(at, w.Weight, "must have exactly one of term, label and free"))
		}
	}
	return errs
}
