package boundary

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// priorityClass names the class of the physical cluster. Without one the pods get
// what that cluster gives to pods that ask for nothing.
func priorityClass(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	class := f.Permits.PriorityClass(str(value))
	switch {
	case class == "":
		f.find(at, Stripped, "the physical cluster maps it to no priority class of its own")
		return nil, false
	case lacks(f.Offered.Priority, class):
		f.find(at, Waits, "the physical cluster has no priority class "+class+"; no pod starts until it has")
	case class != str(value):
		f.find(at, Mapped, m.why+", "+class)
	}
	return class, true
}

// preemptionPolicy belongs to the class. The default one is put on every pod that
// has a class, so nobody hears about it.
func preemptionPolicy(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	if value != "PreemptLowerPriority" {
		f.find(at, m.verdict, m.why)
	}
	return nil, false
}

// nodeName is written by schedulers on Pods that are there, and comes from the
// physical cluster. In a template, and on a new Pod, it is the user's.
func nodeName(f *filter, _ member, _ any, _ map[string]any, at *field.Path) (any, bool) {
	switch {
	case !f.is("", "Pod"):
		f.find(at, Refused, "names a node of a physical cluster; select nodes by labels")
	case f.Asked:
		f.find(at, Stripped, "the scheduler of the physical cluster chooses the node")
	}
	return nil, false
}

// nodeSelector is refused for the first key that tenants may not name: without it
// the pod would run where its user does not want it.
func nodeSelector(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	selector, _ := value.(map[string]any)
	refused := false
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if !fleetv1alpha1.PermitsKey(key, nodeLabels, f.Permits.NodeLabels) {
			f.find(at.Key(key), m.verdict, m.why)
			refused = true
		}
	}
	return value, !refused
}

// tolerations keeps those of taints that tenants may tolerate. One without a key
// tolerates every taint, and stays if all may be.
func tolerations(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	all := slices.Contains(f.Permits.Taints, fleetv1alpha1.All)
	list, _ := value.([]any)
	kept := make([]any, 0, len(list))
	for i, item := range list {
		t, _ := item.(map[string]any)
		switch key := str(t["key"]); {
		case all, key != "" && fleetv1alpha1.PermitsKey(key, ordinaryTaints, f.Permits.Taints):
			kept = append(kept, item)
		default:
			f.find(at.Index(i), Stripped, "tolerates taints that the physical cluster does not let tenants tolerate")
		}
	}
	return kept, len(kept) > 0
}

// hostIP goes with the port: without a port on the node it says nothing.
func hostIP(f *filter, m member, value any, parent map[string]any, at *field.Path) (any, bool) {
	switch port := number(parent["hostPort"]); {
	case port == 0:
		return nil, false
	case fleetv1alpha1.PermitsPort(port, f.Permits.HostPorts):
		return value, true
	}
	f.find(at, m.verdict, m.why)
	return nil, false
}

// tokenVolumes finds what a user loses by the name of a volume: the syncer replaces each that
// is called like the one of the token that every pod mounts.
func tokenVolumes(f *filter, _ member, value any, spec map[string]any, at *field.Path) (any, bool) {
	list, _ := value.([]any)
	for i, item := range list {
		if volume, _ := item.(map[string]any); workload.IsTokenVolume(volume) && !workload.IsMount(spec, volume) {
			f.find(at.Index(i), Stripped, "is taken for the volume of a token by its name, kube-api-access-..., and does not go down; give it another name")
		}
	}
	return value, true
}

// projections takes whole sources off a projected volume: one without anything in
// it would be refused by the physical cluster.
func projections(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	list, _ := value.([]any)
	kept := make([]any, 0, len(list))
	for i, item := range list {
		source, _ := item.(map[string]any)
		before := len(f.findings)
		f.structure(m.part, source, at.Index(i))
		if len(source) > 0 || len(f.findings) == before {
			kept = append(kept, item)
		}
	}
	return kept, true
}
