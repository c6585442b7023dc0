package syncer

import (
	"fmt"
	"strings"
	"time"
)

// AddressesCondition is the condition of a Service some of whose addresses are left out of its status: its message has the
// physical clusters of these.
const AddressesCondition = "atoll.dev/AddressesLeftOut"

// mergeServices is the union of the addresses, and of the ports of nodes.
func mergeServices(status map[string]any, views []view) {
	mergeAddresses(status, views)
	var ports map[string]any
	for _, v := range views {
		c := conditionOf(v, NodePortsCondition)
		switch message, _ := c["message"].(string); {
		case c == nil:
		case ports == nil:
			ports = deepCopy(c).(map[string]any)
		default:
			ports["message"] = fmt.Sprintf("%s; %s", ports["message"], message)
		}
	}
	if conditions := worstConditions(views, NodePortsCondition, AddressesCondition); len(conditions) > 0 {
		status["conditions"] = conditions
	}
	if ports != nil {
		appendCondition(status, ports)
	}
	if left := leftOut(views); len(left) > 0 {
		appendCondition(status, map[string]any{
			"type": AddressesCondition, "status": "True", "reason": "NoReadyPods",
			"message": bounded("no pod is ready on " + strings.Join(left, ", ") + ", where clients are not sent"),
		})
	}
}

// beginConditions gives a condition that is made in the summary the time since which it holds: that of the one before, or now.
func beginConditions(status, current map[string]any, now time.Time) {
	for _, c := range list(status, "conditions") {
		if c["type"] != AddressesCondition || c["lastTransitionTime"] != nil {
			continue
		}
		c["lastTransitionTime"] = now.UTC().Format(time.RFC3339)
		if before := conditionOf(view{status: current}, AddressesCondition); before != nil && before["lastTransitionTime"] != nil {
			c["lastTransitionTime"] = before["lastTransitionTime"]
		}
	}
}
