package syncer

import corev1 "k8s.io/api/core/v1"

// stripService takes what the server that stores a Service generates. That has IPv4 alone, and writes it into
// every Service that has addresses: so it says nothing about which family the user wants, and the physical
// cluster may have the other one.
//
//	policy            families   then
//	SingleStack       IPv4       neither goes down: also the policy is a default
//	PreferDualStack   IPv4       the policy does: as many as the physical cluster has, in its order
//	any               any other  both go down: a Service without addresses may name what it likes
func stripService(spec map[string]any) {
	families, _ := spec["ipFamilies"].([]any)
	if len(families) != 1 || families[0] != string(corev1.IPv4Protocol) {
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
