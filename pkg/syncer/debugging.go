package syncer

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ReasonDebuggingRefused is the reason of the event on a pod that gets no ephemeral container
// below.
const ReasonDebuggingRefused = "EphemeralContainerRefused"

// EphemeralContainersBelow is the patch of the subresource ephemeralcontainers that adds those
// to the pod below that somebody added to a pod above, or why they may not go down. One that
// is there is never changed: nobody can do that to an ephemeral container.
//
//	the container     above  below  do
//	of any name       any    there  nothing
//	                  there  none   add it, as far as the table of boundary lets it
//	                  none   none   nothing
//
// What it asks about the pod is answered with the values of now: it starts once.
func EphemeralContainersBelow(kind workload.Kind, logical, physical *unstructured.Unstructured, permits boundary.Permits) (patch *unstructured.Unstructured, refused string) {
	if !kind.IsPod() || logical == nil || physical == nil || logical.GetDeletionTimestamp() != nil || physical.GetDeletionTimestamp() != nil {
		return nil, ""
	}
	below := field(physical.Object, "spec")
	added := addedContainers(list(field(logical.Object, "spec"), ephemeral), list(below, ephemeral))
	if len(added) == 0 {
		return nil, ""
	}
	spec := map[string]any{ephemeral: added}
	for _, name := range []string{"securityContext", "os"} { // they decide what a container may
		if value, ok := below[name]; ok {
			spec[name] = deepCopy(value)
		}
	}
	findings := boundary.Filter(kind, map[string]any{"spec": spec}, boundary.Passage{Permits: permits})
	if refusals := boundary.Refusals(findings); len(refusals) > 0 {
		return nil, summary(refusals)
	}
	host, port, reached := strings.Cut(physical.GetAnnotations()[serverAnnotation], " ")
	for _, container := range list(spec, ephemeral) {
		answerFields(container, logical)
		if reached {
			addEnvironment(container, Server{Host: host, Port: port})
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"uid": string(physical.GetUID())}, // another pod of the name is left alone
		"spec":     map[string]any{ephemeral: spec[ephemeral]},
	}}, ""
}

const ephemeral = "ephemeralContainers"

func addedContainers(above, below []map[string]any) []any {
	there := map[any]bool{}
	for _, c := range below {
		there[c["name"]] = true
	}
	var added []any
	for _, c := range above {
		if !there[c["name"]] {
			added = append(added, deepCopy(c))
		}
	}
	return added
}

// answerFields gives the environment of a container what downward would have a template ask
// for.
func answerFields(container map[string]any, logical *unstructured.Unstructured) {
	values := map[string]string{
		placementv1alpha1.NamespaceAnnotation: logical.GetNamespace(), accountAnnotation: workload.AccountOf(field(logical.Object, "spec")),
		placementv1alpha1.UIDAnnotation: string(logical.GetUID()),
	}
	for _, variable := range list(container, "env") {
		ref := descend(variable, []string{"valueFrom", "fieldRef"})
		for _, d := range downward {
			if ref != nil && ref["fieldPath"] == d.field {
				variable["value"] = values[d.annotation]
				delete(variable, "valueFrom")
			}
		}
	}
}

// ephemeralContainers is what Observe does about them.
func (s Observation) ephemeralContainers() []Action {
	patch, refused := EphemeralContainersBelow(s.Kind, s.Logical, s.Physical, s.Permits)
	switch {
	case refused != "":
		return []Action{{Verb: WriteEvent, Event: PodEvent(s.Logical, s.Target, ReasonDebuggingRefused, refused, metav1.NewTime(s.Now))}}
	case patch != nil:
		return []Action{{Verb: AddContainers, Object: patch}}
	}
	return nil
}

// PodEvent is the event on a pod of which a target refuses what was asked for above. Equal
// refusals have one.
func PodEvent(pod *unstructured.Unstructured, target, reason, message string, at metav1.Time) *corev1.Event {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUID()}
	return eventAbout(about, pod.GetUID(), target, reason, message, at)
}
