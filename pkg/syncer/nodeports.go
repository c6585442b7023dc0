package syncer

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// NodePortsCondition is the condition of a Service whose ports of nodes are others below than
// those that its logical cluster shows: its message has them. Like the addresses of load
// balancers it is part of the status that physical clusters report.
const NodePortsCondition = "atoll.dev/NodePorts"

// statusBelow is the status that the Copy reports.
func (p planner) statusBelow() *runtime.RawExtension {
	if p.carries() {
		return carriedStatus(p.Physical)
	}
	condition := p.nodePorts()
	if condition == nil {
		return rawStatus(p.Physical.Object)
	}
	status, _ := deepCopy(p.Physical.Object["status"]).(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	if conditions, _ := status["conditions"].([]any); len(conditions) > 0 { // nobody else sets it
		filter(status, "conditions", func(c any) bool { m, _ := c.(map[string]any); return m["type"] == NodePortsCondition })
	}
	appendCondition(status, condition)
	return rawStatus(map[string]any{"status": status})
}

// nodePorts is the condition with the ports that nodes of the target have for a Service; nil if
// those are the ones that its logical cluster shows, or there are none.
func (p planner) nodePorts() map[string]any {
	if p.Ref.Kind.Semantics != workload.ServiceSemantics || p.Logical == nil {
		return nil
	}
	above, below := nodePortsOf(p.Logical), nodePortsOf(p.Physical)
	var others []string
	for _, port := range list(field(p.Logical.Object, "spec"), "ports") { // what others may have added below is not of the Service
		key := portKey(port)
		if n := below[key]; n != 0 && n != above[key] {
			others = append(others, fmt.Sprintf("%s is %d", key, n))
		}
	}
	if len(others) == 0 {
		return nil
	}
	since := p.Physical.GetCreationTimestamp().Time
	if since.IsZero() {
		since = time.Unix(0, 0)
	}
	return map[string]any{
		"type": NodePortsCondition, "status": "True", "reason": "ChosenThere", "lastTransitionTime": since.UTC().Format(time.RFC3339),
		"message": bounded("on nodes of " + p.Target + " " + strings.Join(others, ", ")),
	}
}

func nodePortsOf(service *unstructured.Unstructured) map[string]int64 {
	ports := map[string]int64{}
	for _, port := range list(field(service.Object, "spec"), "ports") {
		if n, ok := integer(port, "nodePort"); ok {
			ports[portKey(port)] = n
		}
	}
	return ports
}

// portKey is the port of a Service as kubectl writes it, such as 80/TCP.
func portKey(port map[string]any) string {
	n, _ := integer(port, "port")
	protocol, _ := port["protocol"].(string)
	if protocol == "" {
		protocol = "TCP"
	}
	return fmt.Sprintf("%d/%s", n, protocol)
}
