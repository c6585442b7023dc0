package space

import (
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
)

// probeInterval is how long a reading is believed.
const probeInterval = 100 * time.Millisecond

// ReasonInsufficientStorage is the reason of a refused write.
const ReasonInsufficientStorage metav1.StatusReason = "InsufficientStorage"

// Guard refuses writes that there is no room for.
type Guard struct {
	probe func() (Reading, error)
	now   func() time.Time

	mu    sync.Mutex
	at    time.Time
	level level
	why   string
}

// NewGuard makes a guard that asks probe how much room there is.
func NewGuard(probe func() (Reading, error)) *Guard {
	return &Guard{probe: probe, now: time.Now}
}

// look returns what may be written now, and why not everything.
func (g *Guard) look() (level, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	// With little room each request asks: the rest may go in one stroke.
	if g.level == writable && !g.at.IsZero() && now.Sub(g.at) < probeInterval && now.After(g.at) {
		return g.level, g.why
	}
	g.at = now
	reading, err := g.probe()
	if err != nil {
		klog.ErrorS(err, "Reading how much room there is failed, what was known of it stays")
		return g.level, g.why
	}
	level, why := decide(reading, g.level)
	switch {
	case level == writable && g.level != writable:
		klog.InfoS("There is room again, the server takes writes")
	case level != writable && g.level == writable:
		klog.InfoS("The server is read-only", "reason", why)
	}
	g.level, g.why = level, why
	observe(reading, level)
	return level, why
}

// With serves with next what there is room for. It belongs behind authorization.
func (g *Guard) With(next http.Handler, codecs runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if kind := writeOf(req); kind != noWrite {
			if level, why := g.look(); level == nothing || level == deletions && kind == byUsers {
				responsewriters.ErrorNegotiated(Refusal(why), codecs, schema.GroupVersion{Version: "v1"}, w, req)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

// Refusal is the answer to a write that there is no room for.
func Refusal(why string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: ReasonInsufficientStorage,
		Message: "the server is read-only: " + why,
	}}
}

// write says what kind of write a request is.
type write int

const (
	// noWrite: it stores nothing.
	noWrite write = iota
	// ending: a deletion, or what ends one.
	ending
	// byUsers: everything else.
	byUsers
)

// writeOf classifies a request.
//
//	request                                          write
//	get, list, watch, not about a resource, dry run  none
//	reviews, tokens: they are answered, not stored   none
//	delete, eviction                                 ending
//	events, by anybody                               byUsers
//	others by the server itself or a syncer          ending: status, finalizers, Leases
//	others                                           byUsers
func writeOf(req *http.Request) write {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || len(req.URL.Query()["dryRun"]) > 0 {
		return noWrite
	}
	switch info.Verb {
	case "delete", "deletecollection":
		return ending
	case "create", "update", "patch":
	default:
		return noWrite
	}
	switch {
	case info.APIGroup == "authorization.k8s.io" || info.APIGroup == "authentication.k8s.io" || info.Subresource == "token":
		return noWrite
	case info.Subresource == "eviction":
		return ending
	case info.Resource == "events":
		return byUsers
	}
	u, ok := request.UserFrom(req.Context())
	if !ok {
		return byUsers
	}
	if _, syncer := auth.SyncerOf(u); syncer || auth.IsSystem(u) {
		return ending
	}
	return byUsers
}
