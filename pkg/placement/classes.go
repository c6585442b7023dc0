package placement

import (
	"maps"
	"slices"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// class is one that objects need: what they mean by it is on a physical cluster, or is not.
type class struct {
	kind classKind
	name string
}

type classKind int

const (
	storageClass classKind = iota
	runtimeHandler
	ingressClass
	priorityClass
)

// classes are those that a unit needs.
func (u Unit) classes() []class {
	var out []class
	for _, of := range []struct {
		kind  classKind
		names []string
	}{
		{storageClass, u.StorageClasses}, {runtimeHandler, u.RuntimeHandlers}, {ingressClass, u.IngressClasses},
		{priorityClass, slices.Sorted(maps.Keys(u.PriorityClasses))},
	} {
		for _, name := range of.names {
			out = append(out, class{of.kind, name})
		}
	}
	return out
}

// offers rejects a physical cluster that is known to lack a class, if another one has it.
func (r *rules) offers(c PhysicalCluster) *Rejection {
	for _, class := range r.needed {
		if reported, has := r.unit.has(c, class); reported && !has && !slices.Contains(r.nowhere, class) {
			return r.unit.lacking(c, class)
		}
	}
	return nil
}

// has says whether a physical cluster reports classes of the kind, and whether this one is among them. The
// list of storage classes is trusted only beside a list of APIs: both come in one report, and
// a list alone cannot say that it was never made. A priority class that it maps to none of its own
// keeps no pod from running there: that counts as not known.
func (u Unit) has(c PhysicalCluster, n class) (reported, has bool) {
	switch n.kind {
	case runtimeHandler:
		return c.Status.RuntimeHandlers != nil, slices.Contains(c.Status.RuntimeHandlers.Reported(), n.name)
	case ingressClass:
		return c.Status.IngressClasses != nil, slices.Contains(c.Status.IngressClasses.Reported(), c.Spec.Tenancy.IngressClass(n.name))
	case priorityClass:
		isMapped := len(u.PriorityClasses[n.name][c.Name]) > 0
		return isMapped && c.Status.PriorityClasses != nil, isMapped && u.missing(c, n.name) == ""
	default:
		has = slices.Contains(c.Status.StorageClasses, c.Spec.Tenancy.StorageClass(n.name))
		if n.name == workload.DefaultStorageClass {
			has = c.Status.DefaultStorageClass != ""
		}
		return len(c.Status.APIs) > 0, has
	}
}

// missing is a PriorityClass to which a physical cluster maps one of these names, and that it does not
// report; empty if it reports all.
func (u Unit) missing(c PhysicalCluster, name string) string {
	for _, name := range u.PriorityClasses[name][c.Name] {
		if !slices.Contains(c.Status.PriorityClasses.Reported(), name) {
			return name
		}
	}
	return ""
}

func (u Unit) lacking(c PhysicalCluster, n class) *Rejection {
	switch n.kind {
	case runtimeHandler:
		return reject(ReasonNoRuntimeClass, "it has no runtime class with the handler %s that pods may run with", n.name)
	case ingressClass:
		return reject(ReasonNoIngressClass, "it has no ingress class %s", mapped(n.name, c.Spec.Tenancy.IngressClass(n.name)))
	case priorityClass:
		return reject(ReasonNoPriorityClass, "it has no priority class %s", mapped(n.name, u.missing(c, n.name)))
	}
	if n.name == workload.DefaultStorageClass {
		return reject(ReasonNoStorageClass, "it has no default storage class")
	}
	return reject(ReasonNoStorageClass, "it has no storage class %s", mapped(n.name, c.Spec.Tenancy.StorageClass(n.name)))
}

// mapped is the class that a physical cluster has for a name, for people.
func mapped(name, class string) string {
	if class == name {
		return name
	}
	return class + ", to which it maps " + name
}

// nowhere returns the classes of a unit that no physical cluster reports. What needs such a
// class waits for it, wherever it is, as on any cluster; there is nothing to be gained by having
// the whole unit wait.
func nowhere(s Snapshot, u Unit) []class {
	return slices.DeleteFunc(u.classes(), func(n class) bool {
		return slices.ContainsFunc(s.PhysicalClusters, func(c PhysicalCluster) bool {
			_, has := u.has(c, n)
			return has
		})
	})
}
