package syncer

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// Nameserver is who answers the pods of a logical cluster on a physical cluster with names
// of the logical cluster; the zero value says that nobody offers to, and pods ask the DNS of the
// physical cluster.
type Nameserver struct {
	// Offered says that somebody does.
	Offered bool
	// Address is where; empty as long as it is not known. It is part of templates, so that
	// it has to be known before the first pod, and to stay.
	Address string
	// Port is the one behind the address, and Namespace, Label and App say which pods have it,
	// for policies of tenants.
	Port                  int
	Namespace, Label, App string
}

// ReasonNoNames is the reason of a Copy whose pods wait for names.
const ReasonNoNames = "NoNames"

// namesAnnotation, on a pod template below, has whom its pods ask for names, and what the
// user wrote of that.
const namesAnnotation = "atoll.dev/names"

// asked is what the annotation says.
type asked struct {
	Nameserver string         `json:"nameserver"`
	Policy     string         `json:"policy,omitempty"`
	Config     map[string]any `json:"config,omitempty"`
}

// What the API admits of a dnsConfig; the kubelet takes no more either.
const (
	maxNameservers, maxSearches = 3, 32
	maxSearchBytes              = 2048
)

// asksCluster says that the pods of a template ask the DNS of their cluster.
//
//	dnsPolicy                on the network of the node  then
//	ClusterFirst, or none    no                          the cluster's
//	ClusterFirst, or none    yes                         the node's
//	ClusterFirstWithHostNet  any                         the cluster's
//	Default                  any                         the node's
//	None                     any                         as its dnsConfig says
func asksCluster(spec map[string]any) bool {
	hostNetwork, _ := spec["hostNetwork"].(bool)
	switch corev1.DNSPolicy(text(spec, "dnsPolicy")) {
	case corev1.DNSClusterFirst, "":
		return !hostNetwork
	case corev1.DNSClusterFirstWithHostNet:
		return true
	}
	return false
}

// namesDown has the pods of a template ask a nameserver as they would that of the logical
// cluster: what the kubelet makes of dnsPolicy and dnsConfig there is written down, as below it
// would know another namespace.
func namesDown(template map[string]any, namespace, nameserver string) {
	spec := field(template, "spec")
	if nameserver == "" || !asksCluster(spec) {
		return
	}
	was := asked{Nameserver: nameserver, Policy: text(spec, "dnsPolicy"), Config: field(spec, "dnsConfig")}
	b, err := json.Marshal(was)
	if err != nil {
		return
	}
	setNested(template, string(b), "metadata", "annotations", namesAnnotation)
	const services = "svc.cluster.local"
	spec["dnsPolicy"] = string(corev1.DNSNone)
	spec["dnsConfig"] = map[string]any{
		"nameservers": bound(merged([]string{nameserver}, was.Config["nameservers"]), maxNameservers, maxSearchBytes),
		"searches":    bound(merged([]string{namespace + "." + services, services, "cluster.local"}, was.Config["searches"]), maxSearches, maxSearchBytes),
		"options":     options(list(was.Config, "options")),
	}
}

// merged adds to a list what a user wants besides, once.
func merged(all []string, users any) []string {
	items, _ := users.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// bound cuts a list as the kubelet does: what is too much at the end is left out.
func bound(all []string, items, bytes int) []any {
	var out []any
	for _, s := range all {
		if bytes -= len(s) + 1; len(out) == items || bytes < -1 {
			break
		}
		out = append(out, s)
	}
	return out
}

// options are those of pods in a cluster, unless the user says otherwise, and the user's.
func options(users []map[string]any) []any {
	ndots := map[string]any{"name": "ndots", "value": "5"}
	out := []any{ndots}
	at := map[string]map[string]any{"ndots": ndots}
	for _, o := range users {
		name := text(o, "name")
		if before, ok := at[name]; ok { // the last one of a name counts
			clear(before)
			maps.Copy(before, o)
			continue
		}
		at[name] = maps.Clone(o)
		out = append(out, at[name])
	}
	return out
}

// askedOf reads what namesDown noted.
func askedOf(annotations map[string]any) (was asked, ok bool) {
	noted := text(annotations, namesAnnotation)
	return was, noted != "" && unmarshal(noted, &was) == nil && strings.TrimSpace(was.Nameserver) != ""
}

// namesUp undoes namesDown.
func namesUp(spec, annotations map[string]any) {
	was, ok := askedOf(annotations)
	if !ok {
		return
	}
	delete(spec, "dnsPolicy")
	delete(spec, "dnsConfig")
	if was.Policy != "" {
		spec["dnsPolicy"] = was.Policy
	}
	if was.Config != nil {
		spec["dnsConfig"] = was.Config
	}
}

// NeedsNames says that pods of an object ask the DNS of their cluster, or that it is a policy
// that lets them.
func NeedsNames(kind workload.Kind, obj map[string]any) bool {
	return permitsNames(kind, obj) || slices.ContainsFunc(workload.PodTemplates(kind, obj), func(t map[string]any) bool {
		return asksCluster(field(t, "spec"))
	})
}

// nameserver is whom the pods of the object ask, and whether that has to be found out
// first. A copy that cannot be changed keeps whom it was made with.
func (p planner) nameserver() (n Nameserver, unknown bool) {
	if p.Ref.Kind.Recreate && p.physical == physicalOurs {
		for _, t := range workload.PodTemplates(p.Ref.Kind, p.Physical.Object) {
			was, _ := askedOf(field(field(t, "metadata"), "annotations"))
			return Nameserver{Address: was.Nameserver}, false
		}
	}
	if !p.Nameserver.Offered || !NeedsNames(p.Ref.Kind, p.Logical.Object) {
		return Nameserver{}, false
	}
	return p.Nameserver, p.Nameserver.Address == ""
}

// Why nobody answers with names, where the physical cluster itself does answer.
var (
	ErrNamesNotReady = errors.New("atoll-dns has no ready pod in the namespace that spec.pods.names of the PhysicalCluster names")
	ErrNoPort        = errors.New("all ports of atoll-dns that are tried are taken: remove Services named atoll-names-<port> that nobody uses from its namespace")
)

// NoNames is the failure to find who answers for names. What runs goes on as it is.
func NoNames(err error) *Failure {
	return &Failure{Reason: ReasonNoNames, Message: bounded("pods wait for the names of the logical cluster: " + err.Error())}
}
