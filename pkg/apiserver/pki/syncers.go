package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/registration"
)

// SignSyncer signs the client certificate of the syncer of the PhysicalCluster of this name and
// UID. Of template count the public key and the validity; everything else is ours.
func (p *PKI) SignSyncer(physicalCluster string, uid types.UID, template *x509.Certificate) ([]byte, error) {
	if physicalCluster == "" || uid == "" {
		return nil, errors.New("signing the certificate of a syncer: it needs a PhysicalCluster with a UID")
	}
	own := &x509.Certificate{
		Subject:               pkix.Name{CommonName: registration.User(physicalCluster), Organization: []string{registration.Group}},
		NotBefore:             template.NotBefore,
		NotAfter:              template.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, // it is no authority
		URIs:                  []*url.URL{registration.URI(physicalCluster, uid)},
	}
	if end := p.ca.cert.NotAfter; own.NotAfter.After(end) {
		own.NotAfter = end
	}
	pem, err := p.ca.issue(own, template.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of a syncer: %w", err)
	}
	return pem, nil
}
