package transition

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// reportsTimeout is for how long a physical cluster may go on reporting endpoints from which the traffic
// is withdrawn: its syncer takes them back within a second. One that was taken over may not want to.
const reportsTimeout = time.Minute

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
//	ready endpoints   the physical cluster is   the phase lasts            still lead
//	of a Service there
//	none              any                       any                        no
//	some              Ready                     less than reportsTimeout   yes
//	some              Ready                     longer                     no: who does not take them back must not
//	                                                                       keep what leaves it
//	some              not Ready                 any                        no: nobody there would write that they end
//	                                                                       any more; of one that is silent, the server does
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
			if n := s.ready(o, name); n > 0 && s.Now.Sub(t.Since.Time) < reportsTimeout && o.Kind.Semantics == workload.ServiceSemantics && s.NotReady[name] == "" {
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

// getsAddress says that an object may have an address of its own. A Service of another type has none: a physical cluster
// that says so all the same would keep it, as no other one has anything to match.
func (o Object) getsAddress() bool {
	kind, _, _ := unstructured.NestedString(o.Logical.Object, "spec", "type")
	return o.Kind.Addressed() && (o.Kind.Semantics != workload.ServiceSemantics || kind == string(corev1.ServiceTypeLoadBalancer))
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
