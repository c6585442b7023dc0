package syncer

func stripService(spec map[string]any) {
	// A single IPv4 stack is what our server defaults to, and says nothing
	// about what the user wants or the physical cluster has.
	families, _ := spec["ipFamilies"].([]any)
	if spec["ipFamilyPolicy"] == "SingleStack" && len(families) == 1 && families[0] == "IPv4" {
		delete(spec, "ipFamilyPolicy")
		delete(spec, "ipFamilies")
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
