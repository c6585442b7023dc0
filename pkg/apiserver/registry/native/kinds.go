package native

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/workload/declared"
)

// Kinds are all kinds of our own.
func Kinds() []Kind {
	return []Kind{LogicalCluster(), PhysicalCluster(), Orphan(), PlacedKind(), Manifest(), ClusterPlacementPolicy(), PlacementPolicy(), Placement(), Copy(), ServiceImport(), PodImport()}
}

// LogicalCluster is served in root.
func LogicalCluster() Kind {
	return Kind{
		GroupVersion: tenancy.SchemeGroupVersion, Kind: "LogicalCluster", Plural: "logicalclusters", Singular: "logicalcluster",
		ShortNames: []string{"lc"}, RootOnly: true,
		New:      func() runtime.Object { return &tenancy.LogicalCluster{} },
		NewList:  func() runtime.Object { return &tenancy.LogicalClusterList{} },
		Spec:     func(o runtime.Object) any { return &o.(*tenancy.LogicalCluster).Spec },
		Status:   func(o runtime.Object) any { return &o.(*tenancy.LogicalCluster).Status },
		OnCreate: withFinalizer(tenancy.ContentFinalizer),
		Validate: validateLogicalCluster,
		Columns:  []metav1.TableColumnDefinition{column("Phase", "Where it is in its life."), column("URL", "Where its API is served.")},
		Row: func(o runtime.Object) []any {
			s := o.(*tenancy.LogicalCluster).Status
			return []any{string(s.Phase), s.URL}
		},
	}
}

// withFinalizer is an OnCreate that adds a finalizer.
func withFinalizer(name string) func(runtime.Object) {
	return func(o runtime.Object) {
		if m := accessor(o); !slices.Contains(m.GetFinalizers(), name) {
			m.SetFinalizers(append(m.GetFinalizers(), name))
		}
	}
}

// PhysicalCluster is served in root.
func PhysicalCluster() Kind {
	return Kind{
		GroupVersion: fleet.SchemeGroupVersion, Kind: "PhysicalCluster", Plural: "physicalclusters", Singular: "physicalcluster",
		ShortNames: []string{"phc"}, RootOnly: true,
		New:     func() runtime.Object { return &fleet.PhysicalCluster{} },
		NewList: func() runtime.Object { return &fleet.PhysicalClusterList{} },
		Spec:    func(o runtime.Object) any { return &o.(*fleet.PhysicalCluster).Spec },
		Status:  func(o runtime.Object) any { return &o.(*fleet.PhysicalCluster).Status },
		Default: func(o runtime.Object) {
			spec := &o.(*fleet.PhysicalCluster).Spec
			spec.Connection.Type = cmp.Or(spec.Connection.Type, fleet.ConnectionPull)
		},
		Carry: carryTaints,
		Stamp: stampConditions,
		// From the first write on: that one is not found proves that nothing is left there.
		OnCreate: withFinalizer(fleet.CopiesFinalizer),
		Validate: validatePhysicalCluster,
		// They are listed for each decision, see apiserver.Stored.
		Attrs: storage.VersionedAttrs,
		Columns: []metav1.TableColumnDefinition{
			column("Ready", "Whether it answers and its syncer reports."), column("Schedulable", "Whether it may receive new placements."),
			column("Version", "Kubernetes version."), column("Nodes", "Ready, schedulable nodes."),
			wideColumn("Connection", "Who connects to whom."), wideColumn("Syncer", "Version that the syncer says to have."), wideColumn("Reason", "Why it is ready or not."),
		},
		Row: func(o runtime.Object) []any {
			c := o.(*fleet.PhysicalCluster)
			ready, reason := conditionCells(c.Status.Conditions, fleet.ConditionReady)
			if drained := apimeta.FindStatusCondition(c.Status.Conditions, fleet.ConditionDrained); drained != nil {
				reason += "; drain: " + drained.Reason
			}
			syncer := ""
			if c.Status.Syncer != nil {
				syncer = c.Status.Syncer.Version
			}
			return []any{ready, fmt.Sprint(!c.Spec.Unschedulable && !c.Spec.Drain.Requested), c.Status.Version, fmt.Sprint(c.Status.Nodes), string(c.Spec.Connection.Type), syncer, reason}
		},
	}
}

// Orphan is served in root.
func Orphan() Kind {
	return Kind{
		GroupVersion: fleet.SchemeGroupVersion, Kind: "Orphan", Plural: "orphans", Singular: "orphan",
		ShortNames: []string{"orp"}, RootOnly: true,
		New:      func() runtime.Object { return &fleet.Orphan{} },
		NewList:  func() runtime.Object { return &fleet.OrphanList{} },
		Spec:     func(o runtime.Object) any { return &o.(*fleet.Orphan).Spec },
		Status:   func(o runtime.Object) any { return &o.(*fleet.Orphan).Status },
		Validate: validateOrphan,
		Columns: []metav1.TableColumnDefinition{
			column("Physical Cluster", "Where it is."), column("Kind", "What it is."), column("Object", "Its namespace and name there."),
			column("Claims", "The logical cluster, namespace and name that it says to be the copy of."),
			column("Order", "What an admin ordered."), column("State", "How far the order is."), column("Reason", "Why."),
			column("Made", "How long it has been on the physical cluster; the age is since it was found."), wideColumn("Message", "In words."),
		},
		Row: func(obj runtime.Object) []any {
			o := obj.(*fleet.Orphan)
			object, claim := o.Spec.Object, o.Spec.Claim
			below := object.Name
			if object.Namespace != "" {
				below = object.Namespace + "/" + object.Name
			}
			claimed := claim.LogicalCluster + "/" + claim.Namespace
			if object.Namespace != "" {
				claimed += "/" + claim.Name
			}
			return []any{o.Spec.PhysicalCluster, object.Kind, below, claimed, string(o.Spec.Order), string(o.Status.State), o.Status.Reason,
				metatable.ConvertToHumanReadableDateType(object.Created), o.Status.Message}
		},
	}
}

// PlacedKind is served in root.
func PlacedKind() Kind {
	return Kind{
		GroupVersion: fleet.SchemeGroupVersion, Kind: "PlacedKind", Plural: "placedkinds", Singular: "placedkind",
		ShortNames: []string{"plk"}, RootOnly: true,
		New:     func() runtime.Object { return &fleet.PlacedKind{} },
		NewList: func() runtime.Object { return &fleet.PlacedKindList{} },
		Spec:    func(o runtime.Object) any { return &o.(*fleet.PlacedKind).Spec },
		Status:  func(o runtime.Object) any { return &o.(*fleet.PlacedKind).Status },
		Default: func(o runtime.Object) {
			declared.Complete(o.(*fleet.PlacedKind))
			spec := &o.(*fleet.PlacedKind).Spec
			spec.Changes = cmp.Or(spec.Changes, fleet.ChangesUpdate)
			spec.Status.Source = cmp.Or(spec.Status.Source, fleet.StatusFromCopies)
		},
		// From the first write on: what is placed by it is handled until it is gone.
		OnCreate: withFinalizer(fleet.KindInUseFinalizer),
		Validate: validatePlacedKind,
		Columns: []metav1.TableColumnDefinition{
			column("Kind", "The kind, with its version."), column("Accepted", "Whether it is in the catalog."),
			column("Suitable", "Whether the definitions of the selected logical clusters suit."), column("Objects", "How many have targets."),
			wideColumn("Message", "Why not."),
		},
		Row: func(o runtime.Object) []any {
			p := o.(*fleet.PlacedKind)
			message := ""
			cells := []any{p.Spec.Kind + " " + p.Spec.Version}
			for _, name := range []string{fleet.ConditionAccepted, fleet.ConditionSuitable} {
				status, _ := conditionCells(p.Status.Conditions, name)
				cells = append(cells, status)
				if c := apimeta.FindStatusCondition(p.Status.Conditions, name); c != nil && c.Status != metav1.ConditionTrue && message == "" {
					message = c.Message
				}
			}
			return append(cells, fmt.Sprint(p.Status.Objects), message)
		},
	}
}

// Manifest is served in root.
func Manifest() Kind {
	return Kind{
		GroupVersion: fleet.SchemeGroupVersion, Kind: "Manifest", Plural: "manifests", Singular: "manifest",
		ShortNames: []string{"mf"}, RootOnly: true, Namespaced: true,
		New:      func() runtime.Object { return &fleet.Manifest{} },
		NewList:  func() runtime.Object { return &fleet.ManifestList{} },
		Spec:     func(o runtime.Object) any { return &o.(*fleet.Manifest).Spec },
		Status:   func(o runtime.Object) any { return &o.(*fleet.Manifest).Status },
		Default:  defaultManifest,
		Validate: validateManifest,
		Columns: []metav1.TableColumnDefinition{
			column("Carries", "The kind and name of the object that it carries."), column("In", "Its namespace there."),
			column("Applied", "Whether all physical clusters of its placement have it."), wideColumn("Removal", "What becomes of it where the Manifest is not any more."),
			wideColumn("Message", "Why not."),
		},
		Row: func(o runtime.Object) []any {
			m := o.(*fleet.Manifest)
			kind, name, namespace, message := "", "", "", ""
			if carried, err := carriedBy(m); err == nil {
				kind, name, namespace = carried.GetKind(), carried.GetName(), carried.GetNamespace()
			}
			applied := string(metav1.ConditionUnknown)
			for _, c := range m.Status.Conditions {
				if c.Type == fleet.ConditionApplied {
					if applied = string(c.Status); c.Status != metav1.ConditionTrue {
						message = c.Message
					}
				}
			}
			return []any{kind + "/" + name, namespace, applied, string(m.Spec.Removal), message}
		},
	}
}

// Placement is served in every logical cluster.
func Placement() Kind {
	return Kind{
		GroupVersion: placement.SchemeGroupVersion, Kind: "Placement", Plural: "placements", Singular: "placement",
		ShortNames: []string{"pl"}, Namespaced: true,
		New:      func() runtime.Object { return &placement.Placement{} },
		NewList:  func() runtime.Object { return &placement.PlacementList{} },
		Spec:     func(o runtime.Object) any { return &o.(*placement.Placement).Spec },
		Status:   func(o runtime.Object) any { return &o.(*placement.Placement).Status },
		Validate: validatePlacement,
		Columns: []metav1.TableColumnDefinition{
			column("Physical Clusters", "The targets."), column("Scheduled", "Whether there is a decision."),
			column("Settled", "Whether every copy is in place."), column("Moving", "The phase of a move, or why none begins that should."),
			wideColumn("Policy Satisfied", "Whether the policies of now permit where it is."), wideColumn("Message", "Why not."),
			wideColumn("Scheduler", "Who decides, if that is not this server."),
		},
		Row: func(o runtime.Object) []any {
			p := o.(*placement.Placement)
			names := []string{}
			if p.Spec.Decision != nil {
				for _, c := range p.Spec.Decision.PhysicalClusters {
					names = append(names, c.Name)
				}
			}
			scheduled, _ := conditionCells(p.Status.Conditions, placement.ConditionScheduled)
			settled, _ := conditionCells(p.Status.Conditions, placement.ConditionSettled)
			satisfied, _ := conditionCells(p.Status.Conditions, placement.ConditionPolicySatisfied)
			message, moving := "", ""
			if c := apimeta.FindStatusCondition(p.Status.Conditions, placement.ConditionMoving); c != nil {
				message, moving = c.Message, c.Reason
			}
			for _, name := range []string{placement.ConditionPolicySatisfied, placement.ConditionScheduled} {
				if c := apimeta.FindStatusCondition(p.Status.Conditions, name); c != nil && c.Status != metav1.ConditionTrue && moving == "" {
					message = c.Message
				}
			}
			return []any{strings.Join(names, ","), scheduled, settled, moving, satisfied, message, p.Status.SchedulerName}
		},
	}
}

// Copy is served in every logical cluster.
func Copy() Kind {
	return Kind{
		GroupVersion: placement.SchemeGroupVersion, Kind: "Copy", Plural: "copies", Singular: "copy",
		ShortNames: []string{"cp"}, Namespaced: true,
		New:      func() runtime.Object { return &placement.Copy{} },
		NewList:  func() runtime.Object { return &placement.CopyList{} },
		Spec:     func(o runtime.Object) any { return &o.(*placement.Copy).Spec },
		Validate: validateCopy,
		Columns: []metav1.TableColumnDefinition{
			column("Object", "What is copied."), column("Physical Cluster", "The target."), column("State", "How far the copy is."),
			column("Reason", "Why."), wideColumn("Message", "In words."),
		},
		Row: func(o runtime.Object) []any {
			c := o.(*placement.Copy)
			resource := c.Spec.Object.Resource
			if c.Spec.Object.Group != "" {
				resource += "." + c.Spec.Object.Group
			}
			return []any{resource + "/" + c.Spec.Object.Name, c.Spec.PhysicalCluster, string(c.Status.State), c.Status.Reason, c.Status.Message}
		},
	}
}

// ServiceImport is served in every logical cluster.
func ServiceImport() Kind {
	return Kind{
		GroupVersion: placement.SchemeGroupVersion, Kind: "ServiceImport", Plural: "serviceimports", Singular: "serviceimport",
		Namespaced: true,
		New:        func() runtime.Object { return &placement.ServiceImport{} },
		NewList:    func() runtime.Object { return &placement.ServiceImportList{} },
		Spec:       func(o runtime.Object) any { return &o.(*placement.ServiceImport).Spec },
		Columns: []metav1.TableColumnDefinition{
			column("Physical Clusters", "Where the Service is reached that is elsewhere."),
			column("Endpoints", "How many there are, on all physical clusters of the network, and those that users wrote."),
		},
		Row: func(o runtime.Object) []any {
			spec := o.(*placement.ServiceImport).Spec
			importers, endpoints := []string{}, int(spec.Truncated)
			for _, i := range spec.Importers {
				importers = append(importers, i.PhysicalCluster)
			}
			for _, e := range slices.Concat(spec.Endpoints, spec.Written) {
				endpoints += len(e.Endpoints)
			}
			return []any{strings.Join(importers, ","), fmt.Sprint(endpoints)}
		},
	}
}

// PodImport is served in every logical cluster.
func PodImport() Kind {
	return Kind{
		GroupVersion: placement.SchemeGroupVersion, Kind: "PodImport", Plural: "podimports", Singular: "podimport",
		Namespaced: true,
		New:        func() runtime.Object { return &placement.PodImport{} },
		NewList:    func() runtime.Object { return &placement.PodImportList{} },
		Spec:       func(o runtime.Object) any { return &o.(*placement.PodImport).Spec },
		Columns: []metav1.TableColumnDefinition{
			column("Addresses", "How many there are that NetworkPolicies on other physical clusters may admit."),
			column("Left Out", "How many are left out, as there are too many."),
		},
		Row: func(o runtime.Object) []any {
			spec := o.(*placement.PodImport).Spec
			addresses := 0
			for _, p := range spec.Pods {
				addresses += len(p.Addresses)
			}
			return []any{fmt.Sprint(addresses), fmt.Sprint(spec.Truncated)}
		},
	}
}

func conditionCells(conditions []metav1.Condition, name string) (status, reason string) {
	if c := apimeta.FindStatusCondition(conditions, name); c != nil {
		return string(c.Status), c.Reason
	}
	return string(metav1.ConditionUnknown), ""
}
