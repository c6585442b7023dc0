package apiserver

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
)

// maxURI is the length in bytes of the longest URI that is looked at. Selectors are in
// it, and are parsed, twice, before anybody knows who asks: one of a megabyte takes
// half a second of a processor. Clients that know long ones split them: proxies in front
// of API servers take 8 KiB, mostly.
const maxURI = 32 << 10

const (
	// refusalDelay is how long the refusal of a URI takes. A megabyte of header is read before
	// anybody can refuse it, and who sends such does not heed what is answered.
	refusalDelay = time.Second
	// mostDelayed is how many refusals are delayed at a time: each keeps its header meanwhile. Others
	// are given at once, and end their connection.
	mostDelayed = 64
)

// withBoundedURI refuses what is too long to be parsed for whoever asks.
func withBoundedURI(next http.Handler, c clock.Clock) http.Handler {
	delayed := make(chan struct{}, mostDelayed)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if n := len(req.RequestURI); n > maxURI {
			select {
			case delayed <- struct{}{}:
				select {
				case <-c.After(refusalDelay):
				case <-req.Context().Done():
				}
				<-delayed
			default:
				w.Header().Set("Connection", "close")
			}
			writeStatus(w, metav1.Status{
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnknown, Code: http.StatusRequestURITooLong,
				Message: fmt.Sprintf("the URI of the request has %d bytes, more than %d: select less at a time, by shorter label and field selectors", n, maxURI),
			})
			return
		}
		next.ServeHTTP(w, req)
	})
}

// maxLoggedURI is how much of a URI is logged, in bytes.
const maxLoggedURI = 1 << 10

// withLoggedURI cuts the URI as the client sent it, which upstream's filters log, also for
// somebody whom nobody knows and who leaves at once, and nothing else reads: the request is
// served by its parsed URL, and audited with the whole.
func withLoggedURI(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if uri := req.RequestURI; len(uri) > maxLoggedURI {
			short := *req
			short.RequestURI = uri[:maxLoggedURI] + "..."
			req = &short
		}
		next.ServeHTTP(w, req)
	})
}

// withNamedNamespace refuses namespaces that are no names: they would be paths, which
// storage refuses as an error of its own.
func withNamedNamespace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if info, ok := request.RequestInfoFrom(req.Context()); ok && info.Namespace != "" {
			if wrong := content.IsPathSegmentName(info.Namespace); len(wrong) > 0 {
				writeStatus(w, apierrors.NewBadRequest(fmt.Sprintf("Namespace parameter invalid: %q: %s", info.Namespace, wrong[0])).Status())
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

func writeStatus(w http.ResponseWriter, s metav1.Status) {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	responsewriters.WriteRawJSON(int(s.Code), s, w)
}
