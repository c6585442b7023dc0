package syncer

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	psa "k8s.io/pod-security-admission/api"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/override"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Reasons of a Copy that the physical cluster does not take as it is.
const (
	// ReasonNotPermitted: the physical cluster does not permit what a field asks for.
	// Nothing is applied, and what is there stays as it is.
	ReasonNotPermitted = "NotPermitted"
	// ReasonAdjusted: it is applied, with other values in some fields or without them.
	ReasonAdjusted = "Adjusted"
	// ReasonNoClass: it is applied, and names a class that the physical cluster does not have.
	ReasonNoClass = "NoClass"
	// ReasonNoRuntimeClass: it has no RuntimeClass for the pods, or none that it permits.
	ReasonNoRuntimeClass = "NoRuntimeClass"
)

// PermitsIn is what a target permits the pods that its controllers make in a Namespace: what it
// permits everybody, and what policies permit besides to whatever is in it.
func PermitsIn(namespace *unstructured.Unstructured, target string, everybody boundary.Permits) boundary.Permits {
	if namespace == nil {
		return everybody
	}
	return override.Permits(everybody, stamp.TargetsOf(namespace.GetAnnotations())[target].Overrides)
}

// maxFindings bounds how many a message names.
const maxFindings = 3

// waiting are the findings with those first by which something waits, and whether there are such.
func waiting(findings []boundary.Finding) (ordered []boundary.Finding, waits bool) {
	var rest []boundary.Finding
	for _, f := range findings {
		if f.Verdict == boundary.Waits {
			ordered = append(ordered, f)
		} else {
			rest = append(rest, f)
		}
	}
	return append(ordered, rest...), len(ordered) > 0
}

// summary names the first findings, and how many more there are.
func summary(findings []boundary.Finding) string {
	var sentences []string
	for _, f := range findings[:min(len(findings), maxFindings)] {
		sentences = append(sentences, f.String())
	}
	if more := len(findings) - maxFindings; more > 0 {
		sentences = append(sentences, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(sentences, "; ")
}

// keepStricterLevel leaves the Pod Security level of a physical namespace to an admin
// there who asks for more.
//
//	label below                  set by           then
//	none, or no stricter         any              ours is applied
//	stricter                     us alone         ours is applied: a tenant asked for it, and does no more
//	stricter                     somebody else    it stays
func keepStricterLevel(desired, physical *unstructured.Unstructured) {
	ours := fleetv1alpha1.PodSecurityLevel(desired.GetLabels()[psa.EnforceLevelLabel])
	have := fleetv1alpha1.PodSecurityLevel(physical.GetLabels()[psa.EnforceLevelLabel])
	if ours == "" || ours.Stricter(have) == ours || !labelledByOther(physical, psa.EnforceLevelLabel) {
		return
	}
	delete(field(field(desired.Object, "metadata"), "labels"), psa.EnforceLevelLabel)
}

// labelledByOther says that a label has a value of somebody else than us.
func labelledByOther(physical *unstructured.Unstructured, key string) bool {
	for _, e := range physical.GetManagedFields() {
		ours := e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
		if !ours && e.FieldsV1 != nil && ownsPath(e.FieldsV1.GetRawBytes(), []string{"metadata", "labels", key}) {
			return true
		}
	}
	return false
}
