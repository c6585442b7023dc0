package apiserver

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/skew"
)

// SyncerRefused takes note of a syncer that this server does not work with: what it says of
// itself, and why it was refused.
type SyncerRefused func(target string, said skew.Side, why string)

// withVersions answers what is asked in the view of a target with the version of this server,
// and refuses syncers that do not work with it, whatever they ask there. It is behind
// authorization: nobody but the syncer of the target can have it refused, and the header of
// anybody else is not read. Requests for certificates are outside of views, so one that is
// refused stays registered.
func withVersions(next http.Handler, mine skew.Side, refused SyncerRefused) http.Handler {
	header := mine.Header()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		target, viewed := scope.TargetFrom(req.Context())
		if !viewed {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set(skew.ServerHeader, header)
		user, ok := request.UserFrom(req.Context())
		if !ok {
			next.ServeHTTP(w, req)
			return
		}
		if _, is := auth.SyncerOf(user); !is { // the server itself
			next.ServeHTTP(w, req)
			return
		}
		said, verdict, why := heard(req, mine)
		if verdict == skew.Compatible {
			next.ServeHTTP(w, req)
			return
		}
		if refused != nil {
			refused(target, said, why)
		}
		// For a syncer from before this, too, 503 is silence, in which it changes nothing; any
		// other code would be an answer about the object that it asked for.
		writeStatus(w, metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: fleet.ReasonIncompatibleSyncer, Message: why,
		})
	})
}

// heard decides about the syncer that sent a request.
func heard(req *http.Request, mine skew.Side) (skew.Side, skew.Verdict, string) {
	said, err := skew.Read(req.Header.Values(skew.SyncerHeader))
	if err != nil {
		return said, skew.Unreadable, "the syncer does not say its version as this server, " + mine.String() + ", reads it: in the header " +
			skew.SyncerHeader + ", " + err.Error() + ". Run the syncer of a release"
	}
	verdict, why := skew.Between(said, mine)
	return said, verdict, why
}
