package transition

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Published is what still leads to where the traffic is withdrawn from, as sentences, sorted:
// who writes the status of objects and the slices of endpoints may be behind, and until they
// have, nobody who connects could know. The drain time is for those who knew before.
//
//	an address in the status of a        as the copy that drains   and that of one     still leads
//	Service or an Ingress                has it                    that receives
//	any                                  no                        any                 no
//	any                                  yes                       has it, too         no: it is shared
//	any                                  yes                       has not             yes
//
//	ready endpoints of a Service there   the physical cluster is   still lead
//	none                                 any                       no
//	some                                 Ready                     yes
//	some                                 not Ready                 no: nobody there would write that they end
//	                                                               any more; of one that is silent, the server does
func (s State) Published(t *placementv1alpha1.Transition) []string {
	if t == nil || t.Phase != placementv1alpha1.TransitionDraining {
		return nil
	}
	var out []string
	for _, o := range s.Objects {
		if !o.Kind.Addressed() || o.Logical.GetDeletionTimestamp() != nil {
			continue
		}
		targets := o.targets()
		for _, name := range t.From {
			if entry, ok := targets[name]; !ok || entry.State != placementv1alpha1.TargetStateDraining {
				continue
			}
			for _, address := range o.addressesOnly(name) {
				out = append(out, fmt.Sprintf("%s: its status still has %s of %s", o, address, name))
			}
			if n := s.ready(o, name); n > 0 && o.Kind.Semantics == workload.ServiceSemantics && s.NotReady[name] == "" {
				out = append(out, fmt.Sprintf("%s on %s: %s", o, name, notWithdrawn(n)))
			}
		}
	}
	slices.Sort(out)
	return out
}

func notWithdrawn(n int) string {
	if n == 1 {
		return "1 endpoint is not withdrawn yet"
	}
	return fmt.Sprintf("%d endpoints are not withdrawn yet", n)
}

// addressesOnly are the addresses in the status of an object that its copy on a target has, and
// none that receives traffic.
func (o Object) addressesOnly(name string) []string {
	published := addresses(fieldOf(o.Logical, "status"))
	there := addresses(observed(o.Copies[name]))
	var received []string
	for other, entry := range o.targets() {
		if entry.Receives() {
			received = append(received, addresses(observed(o.Copies[other]))...)
		}
	}
	return slices.DeleteFunc(published, func(address string) bool {
		return !slices.Contains(there, address) || slices.Contains(received, address)
	})
}

// addresses are those of a status, each as its IP address or host name.
func addresses(status map[string]any) []string {
	entries, _, _ := unstructured.NestedSlice(status, "loadBalancer", "ingress")
	var out []string
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		ip, _ := entry["ip"].(string)
		host, _ := entry["hostname"].(string)
		if address := ip + host; address != "" {
			out = append(out, address)
		}
	}
	return out
}

func fieldOf(o *unstructured.Unstructured, name string) map[string]any {
	m, _ := o.Object[name].(map[string]any)
	return m
}
