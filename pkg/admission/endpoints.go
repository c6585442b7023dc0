package admission

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/backends"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// warnOfEndpoints tells who writes endpoints of a Service without a selector to which of them it does not
// lead on physical clusters. The Service may not be there yet; of one with a selector nobody takes
// what users write.
func (p *plugin) warnOfEndpoints(ctx context.Context, r *request) {
	if !r.user() || r.GetSubresource() != "" || r.GetOperation() != admission.Create && r.GetOperation() != admission.Update {
		return
	}
	service, addresses := writtenEndpoints(r.GetObject())
	if service == "" || len(addresses) == 0 || stamp.Mirrored(r.obj) {
		return
	}
	namespace, err := r.getNamespace(ctx)
	if err != nil {
		return // whoever stores the object says so
	}
	targets := stamp.TargetsOf(namespace.Annotations)
	if len(targets) == 0 {
		return
	}
	if s, err := p.lookup.kube.CoreV1().Services(r.GetNamespace()).Get(at(ctx, r.cluster), service, metav1.GetOptions{ResourceVersion: "0"}); err == nil && len(s.Spec.Selector) > 0 {
		return
	}
	var runOn map[string][]string
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		physical, ok := p.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
		if !ok || !targets[target].Keeps() {
			continue
		}
		refused := notLedTo(addresses, physical.Permits())
		if len(refused) > 0 && runOn == nil {
			if runOn, err = p.addressesOfPods(ctx, r); err != nil {
				return
			}
		}
		if refused = p.withoutPods(refused, runOn, physical); len(refused) > 0 {
			more := ""
			if len(refused) > 1 {
				more = fmt.Sprintf(" and %d more", len(refused)-1)
			}
			warning.AddWarning(ctx, "", fmt.Sprintf("on physical cluster %s the Service %s does not lead to %s%s: an admin permits ranges of addresses in spec.tenancy.endpointCIDRs of the PhysicalCluster, and those of pods are none of them",
				target, service, refused[0], more))
		}
	}
}

// addressesOfPods are the physical clusters on which pods of the namespace have an address.
func (p *plugin) addressesOfPods(ctx context.Context, r *request) (map[string][]string, error) {
	pods, err := p.lookup.kube.CoreV1().Pods(r.GetNamespace()).List(at(ctx, r.cluster), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	runOn := map[string][]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if backends.HasEnded(pod) {
			continue
		}
		on := backends.RunsOn(pod)
		for _, ip := range pod.Status.PodIPs {
			runOn[ip.IP] = append(runOn[ip.IP], on...)
		}
	}
	return runOn, nil
}

// withoutPods leaves out the addresses that pods have which run on a physical cluster, or in its
// network: there the Service leads to them.
func (p *plugin) withoutPods(addresses []string, runOn map[string][]string, physical *fleetv1alpha1.PhysicalCluster) []string {
	reached := func(name string) bool {
		other, ok := p.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		return name == physical.Name || ok && other.Spec.Pods.Network != "" && other.Spec.Pods.Network == physical.Spec.Pods.Network
	}
	return slices.DeleteFunc(addresses, func(address string) bool { return slices.ContainsFunc(runOn[address], reached) })
}

func notLedTo(addresses []string, permits boundary.Permits) []string {
	leadsTo := permits.LeadsTo()
	return slices.DeleteFunc(slices.Clone(addresses), func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && leadsTo(address)
	})
}

// writtenEndpoints are the Service and the addresses of an EndpointSlice or of Endpoints.
func writtenEndpoints(obj runtime.Object) (service string, addresses []string) {
	switch o := obj.(type) {
	case *discovery.EndpointSlice:
		for _, e := range o.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
		return o.Labels[discoveryv1.LabelServiceName], addresses
	case *core.Endpoints:
		for _, s := range o.Subsets {
			for _, a := range s.Addresses {
				addresses = append(addresses, a.IP)
			}
		}
		return o.Name, addresses
	}
	return "", nil
}
