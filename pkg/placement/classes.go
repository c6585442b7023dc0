package placement

import (
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
)

// classes are those that a unit needs.
func (u Unit) classes() []class {
	var out []class
	for _, name := range u.StorageClasses {
		out = append(out, class{storageClass, name})
	}
	for _, name := range u.RuntimeHandlers {
		out = append(out, class{runtimeHandler, name})
	}
	return out
}

// offers rejects a physical cluster that is known to lack a class, if another one has it.
func (r *rules) offers(c PhysicalCluster) *rejection {
	for _, class := range r.unit.classes() {
		if reported, has := class.on(c); reported && !has && !slices.Contains(r.nowhere, class) {
			return class.lacking()
		}
	}
	return nil
}

// on says whether a physical cluster reports classes of the kind, and whether this one is among them. The
// list of storage classes is trusted only beside a list of APIs: both come in one report, and
// a list alone cannot say that it was never made.
func (n class) on(c PhysicalCluster) (reported, has bool) {
	switch n.kind {
	case runtimeHandler:
		return c.Status.RuntimeHandlers != nil, slices.Contains(c.Status.RuntimeHandlers.Reported(), n.name)
	default:
		has = slices.Contains(c.Status.StorageClasses, n.name)
		if n.name == workload.DefaultStorageClass {
			has = c.Status.DefaultStorageClass != ""
		}
		return len(c.Status.APIs) > 0, has
	}
}

func (n class) lacking() *rejection {
	switch {
	case n.kind == runtimeHandler:
		return reject(ReasonNoRuntimeClass, "it has no runtime class with the handler %s that pods may run with", n.name)
	case n.name == workload.DefaultStorageClass:
		return reject(ReasonNoStorageClass, "it has no default storage class")
	}
	return reject(ReasonNoStorageClass, "it has no storage class %s", n.name)
}

// nowhere returns the classes of a unit that no physical cluster reports. What needs such a
// class waits for it, wherever it is, as on any cluster; there is nothing to be gained by having
// the whole unit wait.
func nowhere(s Snapshot, u Unit) []class {
	return slices.DeleteFunc(u.classes(), func(n class) bool {
		return slices.ContainsFunc(s.PhysicalClusters, func(c PhysicalCluster) bool {
			_, has := n.on(c)
			return has
		})
	})
}
