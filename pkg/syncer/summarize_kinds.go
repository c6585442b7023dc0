package syncer

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mergeStatefulSets takes the revisions of a target that is still between two, if
// there is one.
func mergeStatefulSets(status map[string]any, views []view) {
	for _, v := range reported(views) {
		current, update := v.status["currentRevision"], v.status["updateRevision"]
		if status["updateRevision"] == nil || current != update {
			keep(status, v.status, "currentRevision")
			keep(status, v.status, "updateRevision")
		}
	}
}

// mergeDisruptionBudgets: a disruption is allowed where one of the targets allows it.
func mergeDisruptionBudgets(status map[string]any, views []view) {
	conditions := worstConditions(views)
	if n, _ := integer(status, "disruptionsAllowed"); n > 0 {
		for i := range conditions {
			c, _ := conditions[i].(map[string]any)
			if allowed := anyCondition(views, "DisruptionAllowed"); allowed != nil && c["type"] == "DisruptionAllowed" {
				conditions[i] = allowed
			}
		}
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	disrupted := map[string]any{}
	for _, v := range views {
		for pod, since := range field(v.status, "disruptedPods") {
			disrupted[pod] = since
		}
	}
	if len(disrupted) > 0 {
		status["disruptedPods"] = disrupted
	}
}

func mergeCronJobs(status map[string]any, views []view) {
	var active []any
	for _, v := range views {
		if refs, ok := v.status["active"].([]any); ok {
			active = append(active, deepCopy(refs).([]any)...)
		}
	}
	if len(active) > 0 {
		status["active"] = active
	}
}

// validCronJob refers to jobs that are mirrored, by name, and shows a last run if there was one: a
// copy may have been given the time of creation in the place of it, see since.
func validCronJob(logical *unstructured.Unstructured, status, _ map[string]any) map[string]any {
	if isCreation(logical, status) {
		delete(status, lastScheduleTime)
	}
	for _, ref := range list(status, "active") {
		ref["namespace"] = logical.GetNamespace()
		delete(ref, "uid")
		delete(ref, "resourceVersion")
	}
	return status
}

// noAddresses is the status of a Service or Ingress that nobody can reach.
var noAddresses = map[string]any{"loadBalancer": map[string]any{}}

// mergeAddresses is the union of the addresses of a Service or Ingress. Those of a target that serves less than another one are
// left out: who took one would be refused, as with a physical cluster whose share of the replicas is none.
//
//	Services that lead to no pod there   of another target, which has an address   its addresses are
//	none                                 any                                       published
//	some                                 less of them, and no others               left out
//	some                                 the same, or others                       published, as by a cluster of its own
func mergeAddresses(status map[string]any, views []view) {
	left := leftOut(views)
	var addresses []any
	seen := map[string]bool{}
	for _, v := range views {
		if slices.Contains(left, v.target) {
			continue
		}
		for _, address := range addressesOf(v) {
			key := fmt.Sprint(address["ip"], address["hostname"])
			if !seen[key] {
				seen[key] = true
				addresses = append(addresses, deepCopy(address))
			}
		}
	}
	balancer := map[string]any{}
	if len(addresses) > 0 {
		balancer["ingress"] = addresses
	}
	status["loadBalancer"] = balancer
}

// leftOut are the targets that have an address and serve less than another one that has.
func leftOut(views []view) (targets []string) {
	lacking := map[string][]string{} // of targets with an address, each once
	for _, v := range views {
		if len(addressesOf(v)) > 0 {
			lacking[strings.Join(v.nowhere, " ")] = v.nowhere
		}
	}
	for _, v := range views {
		if len(addressesOf(v)) > 0 && lacksMore(v.nowhere, lacking) {
			targets = append(targets, v.target)
		}
	}
	return targets
}

func addressesOf(v view) []map[string]any { return list(field(v.status, "loadBalancer"), "ingress") }

// lacksMore says that elsewhere less of the Services that lead nowhere here do, and no others.
func lacksMore(here []string, elsewhere map[string][]string) bool {
	for _, there := range elsewhere {
		if len(there) < len(here) && !slices.ContainsFunc(there, func(service string) bool { return !slices.Contains(here, service) }) {
			return true
		}
	}
	return false
}

// mergeJobs: the Job is complete when it is on every target; it has failed when
// every target is through and one of them failed.
func mergeJobs(status map[string]any, views []view) {
	complete, failed := 0, 0
	for _, v := range views {
		start, _ := v.status["startTime"].(string)
		if first, _ := status["startTime"].(string); start != "" && (first == "" || start < first) {
			status["startTime"] = start
		}
		switch {
		case conditionIs(v.status, "Complete", "True"):
			complete++
		case conditionIs(v.status, "Failed", "True"):
			failed++
		}
	}
	var wanted []string
	switch through := complete+failed == len(views); {
	case complete == len(views):
		latest(status, views, "completionTime")
		wanted = []string{"SuccessCriteriaMet", "Complete"}
	case failed > 0 && through:
		wanted = []string{"FailureTarget", "Failed"}
	case failed > 0:
		wanted = []string{"FailureTarget"}
	case allSuspended(views):
		wanted = []string{"Suspended"}
	}
	var conditions []any
	for _, t := range wanted {
		if c := anyCondition(views, t); c != nil {
			conditions = append(conditions, c)
		}
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
}

func allSuspended(views []view) bool {
	return !slices.ContainsFunc(views, func(v view) bool { return !conditionIs(v.status, "Suspended", "True") })
}

// anyCondition is the condition of a type that some target says is True, with
// the target named.
func anyCondition(views []view, conditionType string) map[string]any {
	for _, v := range views {
		c := conditionOf(v, conditionType)
		if c == nil || c["status"] != "True" {
			continue
		}
		c = deepCopy(c).(map[string]any)
		if message, _ := c["message"].(string); message != "" {
			c["message"] = v.target + ": " + message
		}
		return c
	}
	return nil
}

// keepJobValid makes a status of a Job one that may follow current: the API
// server refuses counters that fall, times that change, and conditions that
// are taken back or lack the one that must come before. Those occur when a copy
// was made again, or comes from an older Kubernetes.
func keepJobValid(status, current map[string]any) map[string]any {
	if conditionIs(current, "Complete", "True") || conditionIs(current, "Failed", "True") {
		return current
	}
	for _, name := range []string{"succeeded", "failed"} {
		before, _ := integer(current, name)
		if now, _ := integer(status, name); now < before {
			status[name] = before
		}
	}
	if !conditionIs(status, "Suspended", "True") && !conditionIs(current, "Suspended", "True") {
		keep(status, current, "startTime")
	}
	for _, before := range []string{"FailureTarget", "SuccessCriteriaMet"} {
		if c := conditionOf(view{status: current}, before); c != nil && c["status"] == "True" && !conditionIs(status, before, "True") {
			appendCondition(status, c)
		}
	}
	for final, before := range map[string]string{"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"} {
		c := conditionOf(view{status: status}, final)
		if c == nil || c["status"] != "True" {
			continue
		}
		if !conditionIs(status, before, "True") {
			c = deepCopy(c).(map[string]any)
			c["type"] = before
			appendCondition(status, c)
		}
		for _, name := range []string{"active", "ready", "terminating"} {
			if n, _ := integer(status, name); n > 0 {
				status[name] = int64(0)
			}
		}
		delete(status, "uncountedTerminatedPods")
	}
	active, _ := integer(status, "active")
	if ready, _ := integer(status, "ready"); ready > active {
		status["ready"] = active
	}
	return status
}

func appendCondition(status map[string]any, condition map[string]any) {
	conditions, _ := status["conditions"].([]any)
	status["conditions"] = append(conditions, deepCopy(condition))
}
