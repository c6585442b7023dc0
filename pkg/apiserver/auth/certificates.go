package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// verifying accepts client certificates of ca.
func verifying(ca *x509.CertPool) authenticator.Request {
	options := x509request.DefaultVerifyOptions()
	options.Roots = ca
	return x509request.New(options, x509request.CommonNameUserConversion)
}

// tenants accepts the certificates that logical clusters give their users: each in
// the logical cluster that it names, as long as that one lives. What somebody
// approved there must not be anybody with power beyond it.
type tenants struct {
	verified authenticator.Request
	// lives says whether there is a logical cluster of this name with this UID.
	lives func(context.Context, logicalcluster.Name, types.UID) (bool, error)
}

var (
	errElsewhere    = errors.New("the client certificate is not for this logical cluster")
	errReservedName = errors.New("the client certificate names a user or group that is reserved for the system")
)

// AuthenticateRequest implements authenticator.Request.
func (t tenants) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := t.verified.AuthenticateRequest(req)
	if !ok || err != nil {
		return nil, false, err
	}
	name, uid, ok := pki.TenantOf(req.TLS.PeerCertificates[0])
	if c, scoped := scope.ClusterFrom(req.Context()); !ok || !scoped || c != name {
		return nil, false, errElsewhere
	}
	if isOfSystem(response.User) {
		return nil, false, errReservedName
	}
	lives, err := t.lives(req.Context(), name, uid)
	if err != nil {
		return nil, false, fmt.Errorf("looking up the logical cluster of a client certificate: %w", err)
	}
	if !lives {
		return nil, false, errElsewhere
	}
	MarkBound(req.Context())
	return response, true, nil
}

// isOfSystem says whether a name or group of u begins as those of the system do.
func isOfSystem(u user.Info) bool {
	return slices.ContainsFunc(append([]string{u.GetName()}, u.GetGroups()...), func(name string) bool {
		return strings.HasPrefix(name, "system:")
	})
}

// syncers binds who shows the certificate of a syncer to the PhysicalCluster that it was signed
// for: all that a syncer may is decided by its name, which another one gets when the first is
// unregistered. Whoever else is verified passes.
//
// The answer to who is not the syncer any more is 401, which a syncer takes for silence: it
// changes nothing.
type syncers struct {
	verified authenticator.Request
	// registered is the PhysicalCluster of a name for which meant holds, if there is one, else
	// any of the name, or nil.
	registered func(ctx context.Context, name string, meant func(*fleet.PhysicalCluster) bool) (*fleet.PhysicalCluster, error)
}

// AuthenticateRequest implements authenticator.Request.
func (s syncers) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := s.verified.AuthenticateRequest(req)
	if !ok || err != nil {
		return nil, false, err
	}
	name, is := SyncerOf(response.User)
	if !is {
		return response, true, nil
	}
	identity, err := registration.IdentityOf(req.TLS.PeerCertificates[0], name)
	if err != nil {
		return nil, false, err //nolint:wrapcheck // an answer
	}
	pc, err := s.registered(req.Context(), name, func(pc *fleet.PhysicalCluster) bool { return identity.Accept(pc) == nil })
	if err != nil {
		return nil, false, fmt.Errorf("looking up the physical cluster of a syncer: %w", err)
	}
	if err := identity.Accept(pc); err != nil {
		return nil, false, err //nolint:wrapcheck // an answer
	}
	u := response.User
	extra := map[string][]string{}
	maps.Copy(extra, u.GetExtra())
	extra[registration.UIDKey] = []string{string(pc.UID)}
	return &authenticator.Response{Audiences: response.Audiences, User: &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}}, true, nil
}
