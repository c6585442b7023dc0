package workload

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
)

// DefaultStorageClass stands, in StorageClasses, for the class that a cluster
// calls its default.
const DefaultStorageClass = ""

// StorageClasses returns the storage classes that the volume claims of an
// object ask for, sorted and each once.
func StorageClasses(kind Kind, obj map[string]any) []string {
	claims := VolumeClaims(kind, obj)
	for _, t := range PodTemplates(kind, obj) {
		for _, v := range children(child(t, "spec"), "volumes") {
			if claim := child(child(v, "ephemeral"), "volumeClaimTemplate"); claim != nil {
				claims = append(claims, claim)
			}
		}
	}
	var classes []string
	for _, claim := range claims {
		if class, ok := storageClass(claim); ok {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// VolumeClaims returns the claims, or templates of them, that an object has beside
// those in pod templates: maps with metadata and spec, shared with obj. A claim is its
// own.
func VolumeClaims(kind Kind, obj map[string]any) []map[string]any {
	switch n := len(kind.VolumeClaims); {
	case kind.VolumeClaims == nil:
		return nil
	case n == 0:
		return []map[string]any{obj}
	default:
		return children(descend(obj, kind.VolumeClaims[:n-1]), kind.VolumeClaims[n-1])
	}
}

// storageClass of a claim; ok is false for a claim that wants no class (it
// names the empty one) or names its volume.
func storageClass(claim map[string]any) (class string, ok bool) {
	spec := child(claim, "spec")
	if text(spec, "volumeName") != "" {
		return "", false
	}
	named, isNamed := spec["storageClassName"].(string)
	if !isNamed {
		return DefaultStorageClass, true
	}
	return named, named != ""
}

var ingresses = networkingv1.SchemeGroupVersion.WithKind("Ingress").GroupKind()

// PriorityClasses returns the priority classes that the pods of an object name, sorted and each once.
func PriorityClasses(kind Kind, obj map[string]any) []string {
	var classes []string
	for _, t := range PodTemplates(kind, obj) {
		if class := text(child(t, "spec"), "priorityClassName"); class != "" {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// IngressClasses returns the ingress class that an object names, if it is an Ingress.
func IngressClasses(kind Kind, obj map[string]any) []string {
	if class := text(child(obj, "spec"), "ingressClassName"); class != "" && kind.GroupKind() == ingresses {
		return []string{class}
	}
	return nil
}

// Requests returns the resources that the pods of an object request in sum:
// those of one pod times the number of pods that are wanted at a time. For a
// DaemonSet that is one pod, as the number of nodes is not known here.
func Requests(kind Kind, obj map[string]any) (corev1.ResourceList, error) {
	sum := corev1.ResourceList{}
	for _, t := range PodTemplates(kind, obj) {
		requests, err := PodRequests(t)
		if err != nil {
			return nil, err
		}
		n := pods(kind, obj)
		for name, quantity := range requests {
			quantity.Mul(n)
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	return sum, nil
}

// PodRequests returns what one pod of a template requests, counted as the
// scheduler of Kubernetes counts: init containers, sidecars and overhead too.
func PodRequests(template map[string]any) (corev1.ResourceList, error) {
	var pod corev1.Pod
	if spec := child(template, "spec"); spec != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod.Spec); err != nil {
			return nil, fmt.Errorf("reading the pod template: %w", err)
		}
	}
	return resourcehelper.PodRequests(&pod, resourcehelper.PodResourcesOptions{}), nil
}

// Replicated says that an object of the kind has replicas that can be divided over several
// physical clusters.
func (k Kind) Replicated() bool { return k.Role == Placed && k.Alike && len(k.Replicas) > 0 }

// Divisible says that a division over several physical clusters is about objects of the kind: about
// replicas, the pods of a Job or a StatefulSet, the numbers of what is about replicas, and in which
// place a CronJob runs.
func (k Kind) Divisible() bool {
	switch k.Semantics {
	case JobSemantics, CronJobSemantics, StatefulSetSemantics, DisruptionBudgetSemantics, AutoscalerSemantics:
		return k.Role == Placed
	}
	return k.Replicated()
}

// Replicas is how many replicas an object of a kind with Replicas wants.
func Replicas(kind Kind, obj map[string]any) int64 {
	last := len(kind.Replicas) - 1
	return max(0, count(descend(obj, kind.Replicas[:last]), kind.Replicas[last]))
}

// pods is how many pods of an object run at a time.
func pods(kind Kind, obj map[string]any) int64 {
	for _, path := range [][]string{kind.Replicas, kind.Parallelism} {
		if n := len(path); n > 0 {
			return count(descend(obj, path[:n-1]), path[n-1])
		}
	}
	return 1
}

// count is the number in a field, 1 if absent.
func count(m map[string]any, field string) int64 {
	switch n := m[field].(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int:
		return int64(n)
	case float64:
		return int64(n)
	}
	return 1
}

// ClassOfClaim is the storage class that a claim names; empty if it names none.
func ClassOfClaim(claim map[string]any) string { return text(child(claim, "spec"), "storageClassName") }
