package native

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementapi "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/volume"
)

var (
	namePath = field.NewPath("metadata", "name")
	specPath = field.NewPath("spec")
)

// clusterName: the names of logical and physical clusters are segments of URLs
// and storage keys.
func clusterName(obj runtime.Object) field.ErrorList {
	name := accessor(obj).GetName()
	if problem := scope.ValidateName(name); problem != "" {
		return field.ErrorList{field.Invalid(namePath, name, problem)}
	}
	return nil
}

// validateLimits refuses what is neither a number of something nor tenancy.Unlimited.
func validateLimits(l tenancy.LogicalClusterLimits, path *field.Path) field.ErrorList {
	asked := map[string]int64{"objects": l.Objects, "definitions": l.Definitions, "watches": l.Watches, "requestsInFlight": l.RequestsInFlight}
	for name, q := range map[string]*resource.Quantity{"bytes": l.Bytes, "definitionBytes": l.DefinitionBytes, "writtenBytes": l.WrittenBytes} {
		if q != nil {
			asked[name] = q.Value()
		}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if asked[name] < tenancy.Unlimited {
			errs = append(errs, field.Invalid(path.Child(name), asked[name], "must be a number, 0 for the default, or -1 for no limit"))
		}
	}
	return errs
}

func validateLogicalCluster(obj, _ runtime.Object) field.ErrorList {
	errs := clusterName(obj)
	errs = append(errs, validateLimits(obj.(*tenancy.LogicalCluster).Spec.Limits, specPath.Child("limits"))...)
	for i, s := range obj.(*tenancy.LogicalCluster).Spec.Owners {
		path := specPath.Child("owners").Index(i)
		switch s.Kind {
		case "User", "Group":
			if s.Namespace != "" {
				errs = append(errs, field.Forbidden(path.Child("namespace"), "a "+s.Kind+" has no namespace"))
			}
		case "ServiceAccount":
			if s.Namespace == "" {
				errs = append(errs, field.Required(path.Child("namespace"), "the namespace of the ServiceAccount in the logical cluster"))
			}
		default:
			errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind, []string{"User", "Group", "ServiceAccount"}))
		}
		if s.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "who the owner is"))
		}
	}
	return errs
}

// maxIdentity bounds what names a cluster: the UID of its namespace kube-system.
const maxIdentity = 128

func validatePhysicalCluster(obj, _ runtime.Object) field.ErrorList {
	errs := clusterName(obj)
	spec := obj.(*fleet.PhysicalCluster).Spec
	path := specPath.Child("connection")
	ref := spec.Connection.KubeconfigSecretRef
	switch spec.Connection.Type {
	case fleet.ConnectionPush:
		if ref == nil {
			errs = append(errs, field.Required(path.Child("kubeconfigSecretRef"), `type Push needs a Secret in "root" with the key "kubeconfig"`))
		}
	case fleet.ConnectionPull:
		if ref != nil {
			errs = append(errs, field.Forbidden(path.Child("kubeconfigSecretRef"), "only type Push has one"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), spec.Connection.Type, []fleet.ConnectionType{fleet.ConnectionPull, fleet.ConnectionPush}))
	}
	if ref != nil && ref.Namespace == "" {
		errs = append(errs, field.Required(path.Child("kubeconfigSecretRef", "namespace"), ""))
	}
	if ref != nil && ref.Name == "" {
		errs = append(errs, field.Required(path.Child("kubeconfigSecretRef", "name"), ""))
	}
	if spec.Drain.MaxMoving < 0 {
		errs = append(errs, field.Invalid(specPath.Child("drain", "maxMoving"), spec.Drain.MaxMoving, "must be at least 1, or left out"))
	}
	if len(spec.Identity) > maxIdentity {
		errs = append(errs, field.TooLong(specPath.Child("identity"), "", maxIdentity))
	}
	if o := spec.Orphans; o != nil {
		path := specPath.Child("orphans")
		errs = append(errs, validateOrder(o.Order, path.Child("order"))...)
		if o.FoundBefore.IsZero() {
			errs = append(errs, field.Required(path.Child("foundBefore"), "the time until which Orphans were found that the order is about, such as now"))
		}
	}
	if server := spec.Pods.Server; server != "" && !isServerURL(server) {
		errs = append(errs, field.Invalid(specPath.Child("pods", "server"), server[:min(len(server), maxIdentity)], "give https://HOST[:PORT] without a path"))
	}
	if namespace := spec.Pods.Names.Namespace; namespace != "" {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(specPath.Child("pods", "names", "namespace"), namespace[:min(len(namespace), maxIdentity)], problem))
		}
	}
	if network := spec.Pods.Network; network != "" {
		for _, problem := range validation.IsDNS1123Label(network) {
			errs = append(errs, field.Invalid(specPath.Child("pods", "network"), network[:min(len(network), maxIdentity)], problem))
		}
	}
	errs = append(errs, validatePodAdmission(spec.Pods.Admission, spec.Connection.Type == fleet.ConnectionPush, specPath.Child("pods", "admission"))...)
	errs = append(errs, validateTenancy(spec.Tenancy, specPath.Child("tenancy"))...)
	errs = append(errs, volume.ValidateClasses(spec.Volumes, specPath.Child("volumes"))...)
	errs = append(errs, validateTaints(spec.Taints, specPath.Child("taints"))...)
	for name, quantity := range spec.Bounds {
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(specPath.Child("bounds").Key(string(name)), quantity.String(), "must not be negative"))
		}
	}
	return errs
}

// isServerURL says that a URL has a scheme, a host and a port, and nothing else.
func isServerURL(server string) bool {
	u, err := url.Parse(server)
	if err != nil || server != "https://"+u.Host {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || len(validation.IsDNS1123Subdomain(u.Hostname())) == 0
}

func validateOrder(order fleet.OrphanOrder, path *field.Path) field.ErrorList {
	all := []fleet.OrphanOrder{fleet.OrphanLeave, fleet.OrphanRemove, fleet.OrphanDiscard, fleet.OrphanAdopt}
	switch {
	case order == "":
		return field.ErrorList{field.Required(path, "one of Leave, Remove, Discard, Adopt")}
	case !slices.Contains(all, order):
		return field.ErrorList{field.NotSupported(path, order, all)}
	}
	return nil
}

func validateOrphan(obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	spec := obj.(*fleet.Orphan).Spec
	if spec.Order != "" {
		errs = append(errs, validateOrder(spec.Order, specPath.Child("order"))...)
	}
	if old != nil {
		if was := old.(*fleet.Orphan).Spec; was.PhysicalCluster != spec.PhysicalCluster || was.Claim != spec.Claim ||
			!apiequality.Semantic.DeepEqual(was.Object, spec.Object) {
			errs = append(errs, field.Forbidden(specPath, "names what was found and never changes, save for the order"))
		}
		return errs
	}
	if problem := scope.ValidateName(spec.PhysicalCluster); problem != "" {
		errs = append(errs, field.Invalid(specPath.Child("physicalCluster"), spec.PhysicalCluster, problem))
	}
	object, claim := specPath.Child("object"), specPath.Child("claim")
	for _, f := range []struct {
		path     *field.Path
		value    string
		optional bool
	}{
		{object.Child("group"), spec.Object.Group, true}, {object.Child("version"), spec.Object.Version, false},
		{object.Child("resource"), spec.Object.Resource, false}, {object.Child("kind"), spec.Object.Kind, false},
		{object.Child("namespace"), spec.Object.Namespace, true}, {object.Child("name"), spec.Object.Name, false},
		{object.Child("uid"), string(spec.Object.UID), false}, {claim.Child("logicalCluster"), spec.Claim.LogicalCluster, false},
		{claim.Child("namespace"), spec.Claim.Namespace, false}, {claim.Child("name"), spec.Claim.Name, false},
		{claim.Child("uid"), string(spec.Claim.UID), false},
	} {
		switch {
		case f.value == "" && !f.optional:
			errs = append(errs, field.Required(f.path, "identifies the orphan"))
		case len(f.value) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.TooLong(f.path, "", validation.DNS1123SubdomainMaxLength))
		}
	}
	return errs
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range taints {
		if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("key"), t.Key, problems[0]))
		}
		if t.Key == fleet.TaintUnreachable {
			errs = append(errs, field.Invalid(path.Index(i).Child("key"), t.Key, "is the taint of a physical cluster that does not answer, which nobody sets"))
		}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			errs = append(errs, field.NotSupported(path.Index(i).Child("effect"), t.Effect, []corev1.TaintEffect{
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
		}
	}
	return errs
}

func validateClusterPlacementPolicy(obj, _ runtime.Object) field.ErrorList {
	p := obj.(*placementapi.ClusterPlacementPolicy)
	errs := placement.ValidateClusterPolicy(&p.Spec, logicalcluster.From(p) == scope.Root, specPath)
	for i, o := range p.Spec.Overrides {
		if o.Permits != nil {
			errs = append(errs, validateTenancy(*o.Permits, specPath.Child("overrides").Index(i).Child("permits"))...)
		}
	}
	return errs
}

func validatePlacementPolicy(obj, _ runtime.Object) field.ErrorList {
	p := obj.(*placementapi.PlacementPolicy)
	return placement.ValidateNamespacePolicy(p.Name, &p.Spec, specPath)
}

func validatePlacement(obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	p := obj.(*placementapi.Placement)
	path := specPath.Child("decision")
	if d := p.Spec.Decision; d != nil {
		if len(d.PhysicalClusters) == 0 {
			errs = append(errs, field.Required(path.Child("physicalClusters"), "a decision names at least one physical cluster"))
		}
		seen := map[string]bool{}
		for i, c := range d.PhysicalClusters {
			at := path.Child("physicalClusters").Index(i).Child("name")
			if problem := scope.ValidateName(c.Name); problem != "" {
				errs = append(errs, field.Invalid(at, c.Name, problem))
			}
			if seen[c.Name] {
				errs = append(errs, field.Duplicate(at, c.Name))
			}
			seen[c.Name] = true
		}
	}
	if b := p.Spec.Bound; b != nil {
		errs = append(errs, validateNames(b.PhysicalClusters, specPath.Child("bound", "physicalClusters"))...)
	}
	if old == nil {
		return errs
	}
	return append(errs, validateTransition(p, old.(*placementapi.Placement), specPath)...)
}

// validateTransition: a decision changes by a transition from all that the unit has or
// may have, and is never taken back. So nobody, of whatever age his view is, can make a
// placement forget where copies are.
func validateTransition(p, old *placementapi.Placement, path *field.Path) field.ErrorList {
	if old.Spec.Decision == nil {
		return nil
	}
	if p.Spec.Decision == nil {
		return field.ErrorList{field.Forbidden(path.Child("decision"), "a decision is not taken back, but followed by another")}
	}
	if slices.EqualFunc(old.Spec.Decision.PhysicalClusters, p.Spec.Decision.PhysicalClusters,
		func(a, b placementapi.DecidedPhysicalCluster) bool { return a.Name == b.Name }) {
		t := p.Spec.Transition
		if was := old.Spec.Transition; t == nil && was != nil && len(was.From) > 0 &&
			was.Phase != placementapi.TransitionRemoving && was.Phase != placementapi.TransitionClearing {
			return field.ErrorList{field.Forbidden(path.Child("transition"), fmt.Sprintf("it ends once %v are left, in the phase Removing or Clearing", was.From))}
		}
		leftover := t != nil && old.Spec.Transition == nil && len(t.To) == 0 && !slices.ContainsFunc(p.Spec.Decision.PhysicalClusters,
			func(c placementapi.DecidedPhysicalCluster) bool { return slices.Contains(t.From, c.Name) })
		if t != nil && !leftover && (old.Spec.Transition == nil || !sameWay(t, old.Spec.Transition)) {
			return field.ErrorList{field.Forbidden(path.Child("transition"), "where a transition goes and what it leaves changes with the decision only")}
		}
		return nil
	}
	var next []string
	for _, c := range p.Spec.Decision.PhysicalClusters {
		next = append(next, c.Name)
	}
	want := transition.Begin(old.Spec, next, "", placementapi.MoveTimes{}, time.Time{})
	if t := p.Spec.Transition; want != nil && (t == nil || !sameWay(t, want) || t.Phase != placementapi.TransitionStarting) {
		return field.ErrorList{field.Forbidden(path.Child("decision"),
			fmt.Sprintf("it needs a transition in the phase Starting to %v, from %v, of which %v have no traffic", want.To, want.From, want.Withdrawn))}
	}
	return nil
}

func sameWay(a, b *placementapi.Transition) bool {
	return slices.Equal(a.To, b.To) && slices.Equal(a.From, b.From) && slices.Equal(a.Withdrawn, b.Withdrawn)
}

func validateCopy(obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	c := obj.(*placementapi.Copy)
	if problem := scope.ValidateName(c.Spec.PhysicalCluster); problem != "" {
		errs = append(errs, field.Invalid(specPath.Child("physicalCluster"), c.Spec.PhysicalCluster, problem))
	}
	o, path := c.Spec.Object, specPath.Child("object")
	for name, value := range map[string]string{"version": o.Version, "resource": o.Resource, "kind": o.Kind, "name": o.Name, "uid": string(o.UID)} {
		if value == "" {
			errs = append(errs, field.Required(path.Child(name), "identifies what is copied"))
		}
	}
	switch c.Status.State {
	case placementapi.CopyPending, placementapi.CopySynced, placementapi.CopyFailed, placementapi.CopyRemoving, placementapi.CopyRemoved:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("status", "state"), c.Status.State, []placementapi.CopyState{
			placementapi.CopyPending, placementapi.CopySynced, placementapi.CopyFailed, placementapi.CopyRemoving, placementapi.CopyRemoved}))
	}
	if v := c.Status.Volume; v != nil {
		path := field.NewPath("status", "volume")
		if o.Group != "" || o.Resource != "persistentvolumeclaims" {
			errs = append(errs, field.Forbidden(path, "only the Copy of a PersistentVolumeClaim has one"))
		}
		errs = append(errs, volume.Validate(v, path)...)
	}
	if old != nil && old.(*placementapi.Copy).Spec != c.Spec {
		errs = append(errs, field.Forbidden(specPath, "identifies the copy and never changes"))
	}
	return errs
}

// validatePodAdmission: one way to the syncer, which for one inside the server that knows how
// it is reached may be left out, and what happens without an answer.
func validatePodAdmission(a *fleet.PodAdmission, inside bool, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if a.Service == nil && a.URL == "" && !inside || a.Service != nil && a.URL != "" {
		errs = append(errs, field.Invalid(path, "", "set service, for a syncer in the physical cluster, or url, for one beside it"))
	}
	if a.URL != "" && !isServerURL(a.URL) {
		errs = append(errs, field.Invalid(path.Child("url"), a.URL[:min(len(a.URL), maxIdentity)], "give https://HOST[:PORT] without a path"))
	}
	if s := a.Service; s != nil {
		for name, value := range map[string]string{"namespace": s.Namespace, "name": s.Name} {
			for _, problem := range validation.IsDNS1123Label(value) {
				errs = append(errs, field.Invalid(path.Child("service", name), value[:min(len(value), maxIdentity)], problem))
			}
		}
		if s.Port < 0 || s.Port > 65535 {
			errs = append(errs, field.Invalid(path.Child("service", "port"), s.Port, "must be between 1 and 65535, or left out for 443"))
		}
	}
	switch a.WhenUnavailable {
	case "", fleet.UnavailableRefuse, fleet.UnavailableAdmit:
	default:
		errs = append(errs, field.NotSupported(path.Child("whenUnavailable"), a.WhenUnavailable, []fleet.UnavailablePolicy{fleet.UnavailableRefuse, fleet.UnavailableAdmit}))
	}
	return errs
}
