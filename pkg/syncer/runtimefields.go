package syncer

import corev1 "k8s.io/api/core/v1"

// stripService takes the families that the server which stores a Service writes into each one that does not say which it
// wants: they say nothing about those of the physical cluster.
//
//	the Service                             policy        families     then
//	has neither cluster IPs nor a selector  any           any          both go down: what its user says of its endpoints
//	any other                               SingleStack   IPv4         neither does: that is what is written by default
//	any other                               any other     IPv4 first   the policy does: those that the physical cluster
//	                                                                   has, in its order
//	any other                               any           IPv6 first   both do: its user chose
func stripService(spec map[string]any) {
	families, _ := spec["ipFamilies"].([]any)
	selector, _ := spec["selector"].(map[string]any)
	if len(families) == 0 || families[0] != string(corev1.IPv4Protocol) || spec["clusterIP"] == corev1.ClusterIPNone && len(selector) == 0 {
		return
	}
	delete(spec, "ipFamilies")
	if spec["ipFamilyPolicy"] == string(corev1.IPFamilyPolicySingleStack) {
		delete(spec, "ipFamilyPolicy")
	}
}

// jobLabels name a Job and its UID on its pods; the server that stores the Job
// generates them and the selector.
var jobLabels = []string{"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}

// stripJob removes the generated selector of a Job or a job template.
func stripJob(job map[string]any) {
	if manualSelector(job) {
		return
	}
	spec := field(job, "spec")
	delete(spec, "selector")
	labels := field(field(field(spec, "template"), "metadata"), "labels")
	for _, name := range jobLabels {
		delete(labels, name)
	}
}

// generatedJobLabels are none if the user wrote the selector himself.
func generatedJobLabels(job map[string]any) []string {
	if manualSelector(job) {
		return nil
	}
	return jobLabels
}

func manualSelector(job map[string]any) bool {
	manual, _ := field(job, "spec")["manualSelector"].(bool)
	return manual
}
