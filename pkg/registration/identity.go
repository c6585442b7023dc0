package registration

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// scheme, the name of a PhysicalCluster and its UID make the URI in the certificate of its
// syncer:
//
//	atoll-physicalcluster:east?uid=0f8c...
const (
	scheme = "atoll-physicalcluster"
	uidKey = "uid"
)

// UIDKey is where a syncer that is authenticated has the UID of its PhysicalCluster, among what
// its user has besides name and groups.
const UIDKey = "fleet.atoll.dev/physicalcluster-uid"

const (
	// MaxLifetime bounds a certificate that the server signs.
	MaxLifetime = 90 * 24 * time.Hour
	// Backdate is how much earlier than it is signed such a certificate begins, and ByHandBackdate
	// one that `atoll kubeconfig --syncer` makes, which lasts longer than any of those.
	Backdate       = 5 * time.Minute
	ByHandBackdate = time.Hour
)

// Identity is what the certificate of a syncer says about its PhysicalCluster.
type Identity struct {
	// UID is empty in a certificate that is made by hand, and in those from before they had one.
	UID types.UID
	// Signed is when it was signed.
	Signed time.Time
}

// URI is what a certificate says of the PhysicalCluster whose syncer has it.
func URI(physicalCluster string, uid types.UID) *url.URL {
	return &url.URL{Scheme: scheme, Opaque: physicalCluster, RawQuery: url.Values{uidKey: {string(uid)}}.Encode()}
}

// IdentityOf reads the certificate of the syncer of a physical cluster, which whoever calls it
// has verified. The error says that it is for another one.
func IdentityOf(certificate *x509.Certificate, physicalCluster string) (Identity, error) {
	i := Identity{Signed: certificate.NotBefore.Add(Backdate)}
	if certificate.NotAfter.Sub(certificate.NotBefore) > MaxLifetime+Backdate {
		i.Signed = certificate.NotBefore.Add(ByHandBackdate)
	}
	if len(certificate.URIs) == 0 {
		return i, nil
	}
	u := certificate.URIs[0]
	i.UID = types.UID(u.Query().Get(uidKey))
	if len(certificate.URIs) > 1 || u.Scheme != scheme || u.Opaque != physicalCluster || i.UID == "" {
		return Identity{}, fmt.Errorf("the certificate is not that of the syncer of %s", physicalCluster)
	}
	return i, nil
}

// errNotRegistered: there is no PhysicalCluster of the name.
var errNotRegistered = errors.New("the physical cluster is not registered")

// Accept says whether who has a certificate is the syncer of pc, the PhysicalCluster that has its
// name now, nil if there is none: whoever had the name before is another one. The error says why not.
//
//	certificate    PhysicalCluster                  then
//	any            none                             error
//	with a UID     with this UID                    accepted
//	with a UID     with another UID                 error
//	without a UID  made before it was signed        accepted
//	without a UID  made after it was signed         error
//
// Whether it goes, is forgotten or is connected to in another way does not matter here: a syncer
// acknowledges removals until its PhysicalCluster is gone.
func (i Identity) Accept(pc *fleetv1alpha1.PhysicalCluster) error {
	switch {
	case pc == nil:
		return errNotRegistered
	case i.UID != "" && i.UID != pc.UID:
		return fmt.Errorf("the certificate is for the PhysicalCluster %s that had the UID %s, and has been unregistered: the one that is registered has %s", pc.Name, i.UID, pc.UID)
	case i.UID == "" && pc.CreationTimestamp.After(i.Signed):
		return fmt.Errorf("the certificate was signed before the PhysicalCluster %s was registered, for one that had its name", pc.Name)
	}
	return nil
}

// UIDOf is that of the PhysicalCluster in what a user has besides name and groups; empty if there is none.
func UIDOf[V ~[]string](extra map[string]V) types.UID {
	if v := extra[UIDKey]; len(v) == 1 {
		return types.UID(v[0])
	}
	return ""
}
