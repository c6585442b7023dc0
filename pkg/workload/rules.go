package workload

import "strings"

// Rules says whether an object of a ruling kind holds on each physical cluster of a
// namespace with so many. What a LimitRange says of one pod is the same everywhere.
// A ResourceQuota says how much there may be in sum: with several physical clusters
// each would allow all of it, and none knows what the others have.
func Rules(kind Kind, targets int) bool {
	return kind.Role == Ruling && (!kind.InSum || targets == 1)
}

// Ruled says whether rules of the namespace are to be on a physical cluster before
// an object of the kind is.
func Ruled(kind Kind) bool { return kind.PodTemplate != nil || kind.Observed }

// countedBelow are the names of object counts in a ResourceQuota that mean the same
// on a physical cluster: of what controllers there make.
var countedBelow = map[string]bool{
	"pods": true, "persistentvolumeclaims": true,
	"count/pods": true, "count/persistentvolumeclaims": true, "count/replicasets.apps": true, "count/jobs.batch": true,
}

// MeasuredBelow says whether a name in spec.hard of a ResourceQuota means the same on
// a physical cluster as in the logical one: what pods and claims use, and how many
// objects there are of the kinds that controllers there make. Other kinds are counted
// where users make them; below there may be objects that no user made.
func MeasuredBelow(name string) bool {
	for _, prefix := range []string{"requests.", "limits.", "hugepages-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "cpu", "memory", "ephemeral-storage":
		return true
	}
	return countedBelow[name] || strings.Contains(name, ".storageclass.storage.k8s.io/")
}
