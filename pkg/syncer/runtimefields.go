package syncer

import (
	"maps"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// stripRuntimeFields removes what the API server and the controllers of the
// logical cluster, or nobody, wrote into the spec: below, others decide it.
func stripRuntimeFields(kind workload.Kind, obj map[string]any) {
	spec := field(obj, "spec")
	switch kind.Kind {
	case "Namespace":
		delete(obj, "spec") // finalizers
	case "ResourceQuota":
		hard := field(spec, "hard")
		maps.DeleteFunc(hard, func(name string, _ any) bool { return !workload.MeasuredBelow(name) })
	case "Service":
		stripService(spec)
	case "PersistentVolumeClaim":
		delete(spec, "volumeName")
	case "Pod":
		for _, name := range []string{"nodeName", "priority", "ephemeralContainers"} {
			delete(spec, name)
		}
		if class, _ := spec["priorityClassName"].(string); class == "" {
			delete(spec, "preemptionPolicy")
		}
	case "Job":
		// Nobody tidies up below what is still there above; finished Jobs are
		// removed in the logical cluster, and from there below.
		delete(spec, "ttlSecondsAfterFinished")
		stripJob(obj)
	case "CronJob":
		stripJob(field(spec, "jobTemplate"))
	case "Secret":
		// The token controller below deletes tokens whose account it does not know.
		if obj["type"] == "kubernetes.io/service-account-token" {
			obj["type"] = "Opaque"
		}
	}
}

func stripService(spec map[string]any) {
	if spec["clusterIP"] != "None" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	delete(spec, "healthCheckNodePort")
	for _, port := range list(spec, "ports") {
		delete(port, "nodePort")
	}
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

func dropJobLabels(labels map[string]any) {
	for _, name := range jobLabels {
		delete(labels, name)
	}
}

// stripJob removes the generated selector of a Job or a job template.
func stripJob(job map[string]any) {
	if manualSelector(job) {
		return
	}
	spec := field(job, "spec")
	delete(spec, "selector")
	dropJobLabels(field(field(field(spec, "template"), "metadata"), "labels"))
}

func manualSelector(job map[string]any) bool {
	manual, _ := field(job, "spec")["manualSelector"].(bool)
	return manual
}
