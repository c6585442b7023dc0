package syncer

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// maxNoEndpoints bounds CopyStatus.NoEndpoints: what is said, and what is believed of others.
const maxNoEndpoints = 32

// ServicesOf are the names of the Services by which requests for an address of a copy come to pods: those behind an Ingress, and
// a Service itself, if it may have one. In order.
func ServicesOf(kind workload.Kind, physical *unstructured.Unstructured) []string {
	if physical == nil {
		return nil
	}
	if kind.Semantics == workload.ServiceSemantics && text(field(physical.Object, "spec"), "type") == string(corev1.ServiceTypeLoadBalancer) {
		return []string{physical.GetName()}
	}
	var names []string
	for _, led := range workload.Led(kind, physical.Object) {
		names = append(names, led.Name)
	}
	return names
}

// LeadsNowhere says of the copy of a Service, nil if there is none, and of the EndpointSlices that it controls that it leads to
// no pod that is ready. One without a selector leads where users say.
func LeadsNowhere(service *unstructured.Unstructured, owned []*unstructured.Unstructured) bool {
	return service == nil || selects(service) && !slices.ContainsFunc(owned, leads)
}

// selects says that a Service has endpoints made of the pods that it selects.
func selects(service *unstructured.Unstructured) bool {
	spec := field(service.Object, "spec")
	return len(field(spec, "selector")) > 0 && text(spec, "type") != "ExternalName"
}

// leads says that an EndpointSlice has an endpoint that is ready: one that does not say is.
func leads(slice *unstructured.Unstructured) bool {
	endpoints, _ := slice.Object["endpoints"].([]any)
	return slices.ContainsFunc(endpoints, func(e any) bool {
		endpoint, _ := e.(map[string]any)
		ready, said := field(endpoint, "conditions")["ready"].(bool)
		return ready || !said
	})
}

// settlingTime is how long a copy leads to pods by a Service before that is said, where it was said that it does not: load
// balancers learn of pods later than API servers do, see decision 0103.
const settlingTime = 5 * time.Second

// noEndpoints are the Services of which is said that they lead to no pod.
//
//	it leads to a pod   the Copy says that it does not   it is said
//	no                  any                              that it does not
//	yes                 no                               that it does
//	yes                 yes                              that it does not, until settlingTime has passed
func (p planner) noEndpoints() (names []string) {
	if p.Nowhere == nil {
		return nil
	}
	settling, _ := Settling(p.Input)
	for _, name := range ServicesOf(p.Ref.Kind, p.Physical) {
		if len(names) == maxNoEndpoints {
			break
		}
		since, waits := settling[name]
		if p.Nowhere(name) || waits && p.Now.Sub(since) < settlingTime {
			names = append(names, name)
		}
	}
	return names
}

func (in Input) saidNowhere(service string) bool {
	return in.Copy != nil && slices.Contains(in.Copy.Status.NoEndpoints, service)
}

// Settling is since when the copy leads to pods by each Service of which its Copy says that it does not, and when the first of
// these settles that has not yet; nil and zero if there is none.
func Settling(in Input) (since map[string]time.Time, left time.Duration) {
	if in.Nowhere == nil {
		return nil, 0
	}
	for _, name := range ServicesOf(in.Ref.Kind, in.Physical) {
		if !in.saidNowhere(name) || in.Nowhere(name) {
			continue
		}
		began, known := in.LedSince[name]
		if !known {
			began = in.Now
		}
		if since == nil {
			since = map[string]time.Time{}
		}
		since[name] = began
		if more := settlingTime - in.Now.Sub(began); more > 0 && (left == 0 || more < left) {
			left = more
		}
	}
	return since, left
}

// ledAnew is the name of the Service that leads somewhere by now, and may not have, or the other way round; empty for none.
func (c Change) ledAnew() string {
	changed := func(says func(*unstructured.Unstructured) bool) bool {
		return c.Old == nil || c.New == nil || says(c.Old) != says(c.New)
	}
	switch {
	case c.Kind.Semantics == workload.EndpointSliceSemantics && changed(leads):
		return c.Latest().GetLabels()[discoveryv1.LabelServiceName]
	case c.Kind.Semantics == workload.ServiceSemantics && changed(selects):
		return c.Latest().GetName()
	}
	return ""
}

// leadsByOthers says that the copy of an Ingress leads to pods by other Services than before.
func (c Change) leadsByOthers() bool {
	return c.Kind.Semantics == workload.IngressSemantics && c.New != nil && !slices.Equal(ServicesOf(c.Kind, c.Old), ServicesOf(c.Kind, c.New))
}
