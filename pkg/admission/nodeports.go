package admission

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/stamp"
)

// noteNodePorts notes on a Service which ports of nodes its user asks for. The server chooses
// one for each other port behind admission, and from then on nothing tells them apart by
// looking at the Service: whoever reads it and sends it back sends those, too.
//
//	a port of the Service                                        is
//	of one that is being made, by whatever is restored           asked for
//	that the Service did not have                                asked for
//	that was asked for before                                    asked for
//	that somebody has written, as the managed fields say         asked for
//	any other                                                    chosen by the server
//
// Whoever writes the Service without the port asks for it no more, although the server keeps it.
func noteNodePorts(r *request) {
	service, ok := r.GetObject().(*core.Service)
	if !ok || !r.user() || r.GetSubresource() != "" {
		return
	}
	old, ok := r.GetOldObject().(*core.Service)
	if !ok {
		old = &core.Service{}
	}
	noted, had := stamp.NodePortsOf(old.Annotations), map[int32]bool{}
	for _, port := range old.Spec.Ports {
		had[port.NodePort] = true
	}
	var asked []int64
	for _, port := range service.Spec.Ports {
		n := int64(port.NodePort)
		if n != 0 && !slices.Contains(asked, n) && (!had[port.NodePort] || slices.Contains(noted, n) || wroteNodePort(service, port)) {
			asked = append(asked, n)
		}
	}
	stamp.NodePorts(service, asked)
}

// wroteNodePort says that the node port of a port has a manager. Nobody manages what the
// server chose, and who only sends it back does not become its manager.
func wroteNodePort(service *core.Service, port core.ServicePort) bool {
	key := fmt.Sprintf(`k:{"port":%d,"protocol":%q}`, port.Port, port.Protocol)
	for _, e := range service.ManagedFields {
		var fields struct {
			Spec struct {
				Ports map[string]map[string]json.RawMessage `json:"f:ports"`
			} `json:"f:spec"`
		}
		if e.FieldsV1 == nil || e.Subresource != "" || json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Spec.Ports[key]["f:nodePort"]; ok {
			return true
		}
	}
	return false
}
