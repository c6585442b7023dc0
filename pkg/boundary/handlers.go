package boundary

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// handler decides about a set field that the table does not decide alone. It
// returns what goes down in its place, and false for nothing; what the user has
// to hear it records with find.
type handler func(f *filter, m member, value any, parent map[string]any, at *field.Path) (out any, keep bool)

// handlers are by the field's name in the table. It is filled in init, as what
// they call refers to the table of handlers again.
var handlers map[string]handler

func init() {
	handlers = map[string]handler{
		"core/v1 PodSpec.schedulerName": unless(func(f *filter, v any) bool {
			return v == "default-scheduler" || named(f.Permits.Schedulers, v)
		}),
		"core/v1 PodSpec.priorityClassName":                  priorityClass,
		"core/v1 PodSpec.preemptionPolicy":                   preemptionPolicy,
		"core/v1 PodSpec.runtimeClassName":                   runtimeClass,
		podVolumes:                                           tokenVolumes,
		"core/v1 PodSpec.nodeName":                           nodeName,
		"core/v1 PodSpec.nodeSelector":                       nodeSelector,
		"core/v1 PodSpec.tolerations":                        tolerations,
		"core/v1 NodeSelectorRequirement.key":                unless(func(f *filter, v any) bool { return fleetv1alpha1.PermitsKey(str(v), nodeLabels, f.Permits.NodeLabels) }),
		"core/v1 ContainerPort.hostPort":                     unless(func(f *filter, v any) bool { return fleetv1alpha1.PermitsPort(number(v), f.Permits.HostPorts) }),
		"core/v1 ContainerPort.hostIP":                       hostIP,
		"core/v1 ProjectedVolumeSource.sources":              projections,
		"core/v1 PodAffinityTerm.namespaces":                 termNamespaces,
		"core/v1 PodAffinityTerm.namespaceSelector":          namespaceSelector,
		"networking/v1 NetworkPolicyPeer.namespaceSelector":  namespaceSelector,
		"core/v1 PersistentVolumeClaimSpec.volumeName":       unless(func(f *filter, _ any) bool { return f.Permits.StaticVolumes }),
		"core/v1 PersistentVolumeClaimSpec.storageClassName": storageClass,
		"core/v1 ResourceQuotaSpec.hard":                     quotaOfClasses,
		"core/v1 PersistentVolumeClaimSpec.selector":         unless(func(f *filter, _ any) bool { return f.Permits.StaticVolumes }),
		"core/v1 ServiceSpec.clusterIP":                      headless,
		"core/v1 ServiceSpec.clusterIPs":                     headless,
		"core/v1 ServicePort.nodePort":                       nodePort,
		"batch/v1 JobSpec.selector":                          manualSelector,
		"core/v1 ServiceSpec.externalIPs":                    unless(func(f *filter, v any) bool { return allNamed(f.Permits.ExternalIPs, v) }),
		"core/v1 ServiceSpec.loadBalancerIP":                 unless(func(f *filter, v any) bool { return named(f.Permits.LoadBalancerIPs, v) }),
		"core/v1 ServiceSpec.loadBalancerClass":              loadBalancerClass,
		"core/v1 ServiceSpec.externalName":                   externalName,
		"networking/v1 IngressSpec.ingressClassName":         ingressClassName,
	}
	for _, name := range VolumeTypes() {
		handlers["core/v1 VolumeSource."+name] = unless(func(f *filter, _ any) bool { return slices.Contains(f.Permits.Volumes, name) })
	}
}

// unless lets a value pass that is permitted; on any other the table's verdict
// falls.
func unless(permitted func(f *filter, value any) bool) handler {
	return func(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
		if permitted(f, value) {
			return value, true
		}
		f.find(at, m.verdict, m.why)
		return nil, false
	}
}

// meantEmpty are fields whose empty value says something else than that they are not there.
var meantEmpty = map[string]bool{"core/v1 PersistentVolumeClaimSpec.storageClassName": true}

// storageClass: a claim with the empty class binds a volume that exists, whoever made it for
// whom, as one that names its volume does.
func storageClass(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	switch name := str(value); {
	case name == "" && value != nil && !f.Permits.StaticVolumes:
		f.find(at, m.verdict, "is empty, which binds a volume of the physical cluster that is there already, and which others may use: name a class, or leave the field out")
		return nil, false
	case name != "" && len(f.Permits.StorageClasses) > 0 && !named(f.Permits.StorageClasses, value):
		f.find(at, m.verdict, m.why)
		return nil, false
	case name == "":
		return value, true
	}
	return f.named(str(value), f.Permits.StorageClass(str(value)), at), true
}

// named is a class that the physical cluster has under a name of its own.
func (f *filter) named(name, class string, at *field.Path) string {
	if class != name {
		f.find(at, Mapped, "is the class "+class+" on the physical cluster")
	}
	return class
}

// ingressClassName is carried, whether or not the class is there.
func ingressClassName(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	name := str(value)
	if !f.ingressClass(name) {
		f.find(at, m.verdict, m.why)
		return nil, false
	}
	class := f.Permits.IngressClass(name)
	if name != "" && lacks(f.Offered.Ingress, class) {
		f.find(at, Waits, "the physical cluster has no ingress class "+class+"; nobody serves it there until it has")
		return class, true
	}
	return f.named(name, class, at), true
}

// headless keeps that a Service has no address of its own.
func headless(_ *filter, _ member, value any, _ map[string]any, _ *field.Path) (any, bool) {
	list, _ := value.([]any)
	return value, value == "None" || len(list) == 1 && list[0] == "None"
}

// nodePort goes down if the user of the Service asks for it, where the physical cluster lets
// Services do so. One that the server of the logical cluster has chosen another Service may
// have below, of whatever logical cluster.
func nodePort(f *filter, _ member, value any, _ map[string]any, at *field.Path) (any, bool) {
	switch port := number(value); {
	case !slices.Contains(f.Notes.NodePorts, port):
		return nil, false
	case fleetv1alpha1.PermitsPort(port, f.Permits.NodePorts):
		return value, true
	}
	f.find(at, Stripped, "the physical cluster chooses the port of its nodes itself")
	return nil, false
}

// loadBalancerClass takes the load balancer away from a Service that names a class that
// is not permitted: without the class it would be one of another kind. What is left of
// it, as long as nobody makes the balancer, is a Service with ports on nodes.
func loadBalancerClass(f *filter, m member, value any, parent map[string]any, at *field.Path) (any, bool) {
	if named(f.Permits.LoadBalancerClasses, value) {
		return value, true
	}
	f.find(at, m.verdict, m.why)
	if parent["type"] == "LoadBalancer" {
		parent["type"] = "NodePort"
		for _, name := range []string{"allocateLoadBalancerNodePorts", "loadBalancerSourceRanges"} {
			delete(parent, name) // refused for any other type
		}
	}
	return nil, false
}

// manualSelector: the one that the server made names the UID that the Job has there.
func manualSelector(_ *filter, _ member, value any, parent map[string]any, _ *field.Path) (any, bool) {
	manual, _ := parent["manualSelector"].(bool)
	return value, manual
}

func named(permitted []string, value any) bool { return slices.Contains(permitted, str(value)) }

func allNamed(permitted []string, values any) bool {
	list, _ := values.([]any)
	return !slices.ContainsFunc(list, func(v any) bool { return !named(permitted, v) })
}

func str(value any) string {
	s, _ := value.(string)
	return s
}

// number reads an integer as JSON and hand-made objects have them; 0 if it is
// none.
func number(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int:
		return int64(v)
	case float64:
		return int64(v)
	}
	return 0
}

// nowhere is a name that never exists (RFC 6761).
const nowhere = "nothing.invalid."

// externalName makes a name absolute that a search path could complete to the one of a
// Service. By DNS the other name of a Service is absolute anyway; there are proxies that
// look it up by themselves, and complete it.
func externalName(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	name, verdict := ExternalName(str(value))
	switch verdict {
	case Refused:
		f.find(at, m.verdict, m.why)
		return nil, false
	case Mapped:
		f.find(at, Mapped, "is an address, or a name of the machine that asks: who connects to it for the Service may reach what its user may not, so that it leads nowhere on the physical cluster")
	}
	return name, true
}

// ExternalName is the name to which a Service leads on a physical cluster that is to lead to name:
// the same one (AsIs), another one (Mapped), or none (Refused).
func ExternalName(name string) (string, Verdict) {
	switch {
	case inCluster(name):
		return "", Refused
	case isAddress(name):
		return nowhere, Mapped
	case strings.Count(name, ".") < 2 && name != "" && !strings.HasSuffix(name, "."):
		return name + ".", AsIs
	}
	return name, AsIs
}

// isAddress says that an external name is no name: it ends in a number, as addresses do in
// each form in which libraries read them (10.0.0.1, 0x7f.1, 2130706433), or is one by which a
// machine, or the cloud that it runs in, calls itself. Ingress controllers connect to
// external names from inside of the physical cluster. The server of the logical cluster calls
// webhooks and APIs there by rules of its own.
func isAddress(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil {
		return true
	}
	return last == "localhost" || last == "localdomain" || name == "metadata" || strings.HasPrefix(name, "metadata.google.") || strings.HasPrefix(name, "instance-data.")
}

// inCluster says that a DNS name is one of a Service or Pod, under whatever domain
// the physical cluster has for them: <name>.<namespace>.svc and what follows.
func inCluster(name string) bool {
	parts := strings.Split(strings.ToLower(strings.TrimSuffix(name, ".")), ".")
	for i, part := range parts {
		if i >= 2 && (part == "svc" || part == "pod") {
			return true
		}
	}
	return strings.HasSuffix(strings.Join(parts, "."), ".cluster.local")
}
