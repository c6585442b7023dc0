package syncer

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// semantics are what happens to objects of a kind beside what the fields of
// workload.Kind say. A function that is nil does nothing.
type semantics struct {
	// down removes from an object on its way down what is generated above.
	down func(obj map[string]any)
	// up gives back to a mirrored object what the way down took, and turns UIDs and
	// namespaces of the physical cluster into logical ones.
	up func(s Observation, obj *unstructured.Unstructured, labels map[string]string)
	// part gives an object on its way down the part of its numbers that its target has.
	part func(obj map[string]any, target placementv1alpha1.Target)
	// generated are the labels that the server which stores an object generates.
	generated func(obj map[string]any) []string
	// zero is the status when nothing runs, beside the counters.
	zero map[string]any
	// merge adds to the status merged of several targets.
	merge func(status map[string]any, views []view)
	// conditions says that merge writes the conditions, too.
	conditions bool
	// valid makes a status one that may follow on current.
	valid func(logical *unstructured.Unstructured, status, current map[string]any) map[string]any
	// forget is for Forget.
	forget func(obj *unstructured.Unstructured, now time.Time) (changed bool, left time.Duration)
}

// semanticsOf finds those of a kind.
func semanticsOf(kind workload.Kind) semantics {
	switch kind.Semantics {
	case workload.PodSemantics:
		return semantics{down: stripPod, up: podUp}
	case workload.JobSemantics:
		return semantics{down: stripJob, up: jobUp, part: partOfJob, generated: generatedJobLabels, merge: mergeJobs, conditions: true,
			valid: func(logical *unstructured.Unstructured, status, current map[string]any) map[string]any {
				failLost(logical, status)
				return keepJobValid(status, current)
			}}
	case workload.CronJobSemantics:
		return semantics{down: stripCronJob, merge: mergeCronJobs, valid: validCronJob}
	case workload.StatefulSetSemantics:
		return semantics{merge: mergeStatefulSets, part: partOfStatefulSet}
	case workload.ServiceSemantics:
		return semantics{down: func(obj map[string]any) { stripService(field(obj, "spec")) }, zero: noAddresses, merge: mergeServices, conditions: true}
	case workload.IngressSemantics:
		return semantics{zero: noAddresses, merge: mergeAddresses}
	case workload.SecretSemantics:
		return semantics{down: stripSecret}
	case workload.QuotaSemantics:
		return semantics{down: stripQuota}
	case workload.DisruptionBudgetSemantics:
		return semantics{merge: mergeDisruptionBudgets, conditions: true, part: partOfBudget, forget: forgetDisrupted,
			valid: func(_ *unstructured.Unstructured, status, current map[string]any) map[string]any {
				keepDisrupted(status, current)
				return status
			}}
	case workload.AutoscalerSemantics:
		return semantics{part: partOfAutoscaler}
	case workload.EndpointSliceSemantics:
		return semantics{up: endpointsUp}
	}
	return semantics{}
}

// generatedLabels are the labels of an object that the server which stores it
// generates.
func generatedLabels(kind workload.Kind, obj map[string]any) []string {
	if generated := semanticsOf(kind).generated; generated != nil {
		return generated(obj)
	}
	return nil
}

// stripRuntimeFields removes what the API server and the controllers of the
// logical cluster, or nobody, wrote into the spec: below, others decide it.
func stripRuntimeFields(kind workload.Kind, obj map[string]any) {
	for _, path := range kind.RuntimeFields {
		remove(obj, path)
	}
	// Nobody tidies up below what is still there above; what has finished is removed
	// in the logical cluster, and from there below.
	remove(obj, kind.TTL)
	if down := semanticsOf(kind).down; down != nil {
		down(obj)
	}
}

// remove removes the field at the end of a path.
func remove(m map[string]any, path []string) {
	if len(path) == 0 {
		return
	}
	last := len(path) - 1
	delete(descend(m, path[:last]), path[last])
}

// descend is the map at the end of a path, nil if there is none.
func descend(m map[string]any, path []string) map[string]any {
	for _, name := range path {
		m = field(m, name)
	}
	return m
}

func stripQuota(obj map[string]any) {
	maps.DeleteFunc(field(field(obj, "spec"), "hard"), func(name string, _ any) bool { return !workload.MeasuredBelow(name) })
}

func stripPod(obj map[string]any) {
	spec := field(obj, "spec")
	if class, _ := spec["priorityClassName"].(string); class == "" {
		delete(spec, "preemptionPolicy")
	}
}

func stripCronJob(obj map[string]any) { stripJob(field(field(obj, "spec"), "jobTemplate")) }

// stripSecret: the token controller below deletes tokens whose account it does not
// know.
func stripSecret(obj map[string]any) {
	if obj["type"] == "kubernetes.io/service-account-token" {
		obj["type"] = "Opaque"
	}
}
