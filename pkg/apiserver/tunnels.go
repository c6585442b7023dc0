package apiserver

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/tunnel"
)

// giveStreams gives other servers streams. It is behind authorization; that it is a server, which
// has shown a certificate for that, is asked once more, as behind a tunnel nobody asks who it is.
func giveStreams(give func(http.ResponseWriter, *http.Request, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, ok := request.UserFrom(req.Context())
		if !ok || user.GetName() != auth.ServerUser || req.TLS == nil || len(req.TLS.PeerCertificates) == 0 || req.TLS.PeerCertificates[0].Subject.CommonName != auth.ServerUser {
			writeStatus(w, apierrors.NewForbidden(schema.GroupResource{}, tunnel.PeerPath, nil).Status())
			return
		}
		target, ok := tunnel.TargetOf(req.URL.Path)
		if !ok || give == nil {
			writeStatus(w, apierrors.NewNotFound(schema.GroupResource{}, tunnel.PeerPath).Status())
			return
		}
		give(w, req, target)
	})
}

// acceptTunnels hands the connection of a syncer over. It is behind authorization, which
// lets a syncer ask in the view of its own target only; that it is that syncer, and not the
// server itself, is asked once more, as everything that is sent into the tunnel rests on it.
func acceptTunnels(accept func(w http.ResponseWriter, req *http.Request, target string, uid types.UID)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s, _ := scope.From(req.Context())
		user, ok := request.UserFrom(req.Context())
		if !ok || accept == nil || s.Target == "" {
			writeStatus(w, apierrors.NewNotFound(schema.GroupResource{}, tunnel.Path).Status())
			return
		}
		uid := auth.PhysicalClusterUID(user)
		if target, is := auth.SyncerOf(user); !is || target != s.Target || uid == "" {
			writeStatus(w, apierrors.NewForbidden(schema.GroupResource{}, tunnel.Path, nil).Status())
			return
		}
		accept(w, req, s.Target, uid)
	})
}
