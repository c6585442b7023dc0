package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/util/keyutil"
)

// FrontProxy is the authority by which aggregated API servers know the control
// plane. What it signs is no client of the control plane itself.
type FrontProxy struct{ *authority }

// FrontProxy reads the authority, or makes it.
func (p *PKI) FrontProxy() (FrontProxy, error) {
	a, err := loadAuthority(p.path("front-proxy-ca.crt"), p.path("front-proxy-ca.key"), "atoll-front-proxy-ca")
	return FrontProxy{a}, err
}

// CAPEM is the authority's certificate.
func (f FrontProxy) CAPEM() []byte { return f.pem }

// FrontProxyName is the name in the certificate with which the control plane
// speaks for the users of a logical cluster. An aggregated API server of another
// logical cluster does not take it: it expects its own.
func FrontProxyName(c logicalcluster.Name) string { return "atoll-front-proxy:" + c.String() }

// Issue makes such a certificate, and returns it and its key as PEM. Nothing is
// stored.
func (f FrontProxy) Issue(c logicalcluster.Name) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client key: %w", err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, fmt.Errorf("encoding a client key: %w", err)
	}
	certPEM, err = f.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: FrontProxyName(c)},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(certLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("making a front-proxy certificate: %w", err)
	}
	return certPEM, keyPEM, nil
}
