package syncer

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// IsSilence says that err is no answer about an object: the server was not
// reached, is not up, or asks to come back later.
func IsSilence(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	switch s := status.Status(); s.Reason {
	case metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonServiceUnavailable, metav1.StatusReasonUnauthorized, metav1.StatusReasonExpired:
		return true
	default:
		// 500 is also what a broken webhook leads to, which a person must know of.
		return s.Code > 500 || s.Code == 500 && strings.Contains(s.Message, "etcdserver")
	}
}

// ReasonSchemaDiffers: the definition of a custom resource on the physical cluster does not
// know a field of the object.
const ReasonSchemaDiffers = "SchemaDiffers"

// RefusalOf turns an answer of the physical cluster into the failure of a Copy.
// ok is false if it is none: silence, or something that heals by itself.
func RefusalOf(err error, kind workload.Kind) (f Failure, ok bool) {
	if IsSilence(err) {
		return f, false
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return f, false
	}
	status := answer.Status()
	if isTransient(status) {
		return f, false
	}
	f.Reason = string(status.Reason)
	if f.Reason == "" {
		f.Reason = "Refused"
	}
	if strings.Contains(status.Message, "field not declared in schema") {
		f.Reason = ReasonSchemaDiffers
	}
	f.Immutable = isImmutable(status)
	f.Message = "the physical cluster refused it: " + readable(status, kind.Confidential)
	return f, true
}

// isTransient: a namespace that was made a moment ago has no service account yet,
// one that is being deleted will be made anew.
func isTransient(status metav1.Status) bool {
	switch status.Reason {
	case metav1.StatusReasonForbidden:
		return strings.Contains(status.Message, "error looking up service account") ||
			strings.Contains(status.Message, "because it is being terminated")
	case metav1.StatusReasonNotFound:
		return aboutNamespace(status)
	}
	return false
}

// IsNamespaceGone says that there is no namespace to write into.
func IsNamespaceGone(err error) bool {
	var answer apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &answer) && aboutNamespace(answer.Status())
}

func aboutNamespace(status metav1.Status) bool {
	return status.Details != nil && status.Details.Group == "" && status.Details.Kind == "namespaces"
}

func isImmutable(status metav1.Status) bool {
	if status.Reason != metav1.StatusReasonInvalid {
		return false
	}
	for _, text := range []string{"field is immutable", "may not change fields", "may not be changed", "updates to"} {
		if strings.Contains(status.Message, text) {
			return true
		}
	}
	return false
}

// readable says what was refused without repeating values: an error about a
// field quotes it, and a value may be a secret.
func readable(status metav1.Status, confidential bool) string {
	if confidential {
		return string(status.Reason)
	}
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil || len(status.Details.Causes) == 0 {
		return quoted.ReplaceAllString(status.Message, "$1")
	}
	var parts []string
	for _, c := range status.Details.Causes {
		part := withoutValue(c.Message)
		if c.Field != "" { // a policy names none
			part = c.Field + ": " + part
		}
		parts = append(parts, part)
		if len(parts) == 5 {
			break
		}
	}
	return strings.Join(parts, "; ")
}

// withoutValue keeps the end of `Invalid value: "...": must be no more than ...`.
func withoutValue(message string) string {
	kind, rest, ok := strings.Cut(message, ": ")
	if !ok || !strings.HasSuffix(kind, " value") {
		return message
	}
	for _, end := range []string{"\": ", "}: ", "]: "} {
		if i := strings.LastIndex(rest, end); i >= 0 {
			return kind + ": " + rest[i+len(end):]
		}
	}
	if _, tail, ok := strings.Cut(rest, ": "); ok { // a number or a word
		return kind + ": " + tail
	}
	return kind
}

// quoted matches the values in messages that are not split into causes.
var quoted = regexp.MustCompile(`((?:Invalid|Unsupported|Duplicate|Required) value): (?:"(?:[^"\\]|\\.)*"|\{.*\}|\[.*\]|[^:\s]+)`)

// IsGone says that the server answered about this very object that it does not exist,
// and not about its logical cluster or its resource. Of a page
// clients note in its details what they asked for.
func IsGone(err error, gr schema.GroupResource, name string) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || IsPage(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	d := answer.Status().Details
	return d.Name == name && d.Kind == gr.Resource && d.Group == gr.Group
}

// IsPage says that err is not found, and no answer of an API server about objects: a load balancer that has no route, or
// an API server that does not serve the resource.
func IsPage(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// IsOutdated says that a write met nothing under the name, or something else than was seen there: what there is now is
// about to be seen.
func IsOutdated(err error, gr schema.GroupResource, name string) bool {
	return apierrors.IsConflict(err) || IsGone(err, gr, name)
}
