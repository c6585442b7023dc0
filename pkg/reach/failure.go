package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxFailure bounds what is read of an error, maxMessage what is shown of it.
	maxFailure = 64 << 10
	maxMessage = 2 << 10
)

func failure(code int32, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// unavailable is how errors of Unavailable begin.
const unavailable = "the physical cluster of the pod cannot be reached: "

// Unavailable says that the physical cluster of a pod cannot be asked.
func Unavailable(why string) error {
	return failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, unavailable+why)
}

// Absent says that there is no such pod to be asked at the moment.
func Absent(why string) error {
	return failure(http.StatusConflict, metav1.StatusReasonConflict, "the pod cannot be reached: "+why)
}

func notPermitted() error {
	return Unavailable("the control plane is not permitted to do that there; its administrator finds the rules in docs/reaching-down.md")
}

// unreached is why nobody answered, without addresses.
func unreached(err error) error {
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return status
	case errors.Is(err, context.Canceled):
		return Unavailable("the request was given up")
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable("it does not answer in time")
	case errors.Is(err, errEnded):
		return Unavailable("the connection to it ended")
	}
	return Unavailable("it does not answer")
}

// Failure is what a user may read of the answer to c, which is no success. It reads and
// closes the body.
//
//	answer of the physical cluster   the user gets
//	401, 403                         503: the control plane may not
//	404 of the pod                   409: it is not there any more
//	404, 503 of metrics              503: it serves none
//	400, 409, 422, ...               the same, with its own namespace
//	5xx                              the same, with its own namespace
//	2xx, 3xx                         502: it does not do what it was asked
func (c Call) Failure(resp *http.Response) error {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	if err != nil {
		return unreached(err)
	}
	status := metav1.Status{}
	if json.Unmarshal(data, &status) != nil || status.Message == "" {
		status = metav1.Status{Message: string(data)}
	}
	code := int32(resp.StatusCode)
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return notPermitted()
	case !c.ofPod() && c.Subresource != Presence && (code == http.StatusNotFound || code == http.StatusServiceUnavailable):
		return Unavailable("it serves no metrics at the moment (metrics.k8s.io): its administrator installs metrics-server there")
	case code < 400:
		return failure(http.StatusBadGateway, metav1.StatusReasonInternalError, fmt.Sprintf("the physical cluster of the pod answered %d where an error or a stream was expected", code))
	case code == http.StatusNotFound && status.Details != nil && status.Details.Kind == "pods" && status.Details.Name == c.Pod.Name:
		return Absent("it is not there any more")
	}
	if status.Reason == "" {
		status.Reason = metav1.StatusReasonUnknown
	}
	return failure(code, status.Reason, c.translate(status.Message))
}

var (
	urls      = regexp.MustCompile(`https?://[^\s"']+`)
	addresses = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|\[[0-9a-fA-F:]+\](:\d+)?`)
)

// translate takes out of a message what is of the physical cluster.
func (c Call) translate(message string) string {
	message = urls.ReplaceAllString(message, "its node")
	message = addresses.ReplaceAllString(message, "its node")
	if c.inNamespace() {
		message = strings.ReplaceAll(message, c.Pod.Namespace, c.Pod.LogicalNamespace)
	}
	if c.ofPod() {
		message = strings.ReplaceAll(message, string(c.Pod.UID), "its UID")
	}
	message = strings.ToValidUTF8(strings.TrimSpace(message), "?")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	if message == "" {
		message = "the physical cluster of the pod answers with an error and says nothing about it"
	}
	return message
}
