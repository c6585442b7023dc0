// Package pki makes and keeps the keys of a control plane: one certificate
// authority for servers and for clients of the whole control plane, one for
// clients of a single logical cluster, the serving certificate, the admin's client
// certificate and the key that signs service account tokens.
//
// Invariant: what the authority of tenants signs names its logical cluster, by
// name and UID, in a place that nobody but this package writes. So does what is signed
// for syncers with their PhysicalCluster, save what is made by hand (`atoll kubeconfig`).
//
// Everything is in one directory, made on first start and kept. Only a serving
// certificate that no longer fits (another address, close to its end) is renewed.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/atoll-dev/atoll/pkg/registration"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	certLifetime = 365 * 24 * time.Hour
	renewBefore  = 30 * 24 * time.Hour
)

// PKI is the loaded directory.
type PKI struct {
	dir         string
	ca, tenants *authority
	// CAPEM is the certificate authority.
	CAPEM []byte
	// TenantsCAPEM is the certificate authority of clients of one logical cluster.
	TenantsCAPEM []byte
	// ServiceAccountKey signs service account tokens.
	ServiceAccountKey *ecdsa.PrivateKey
}

// Load reads the directory, and makes what is missing.
func Load(dir string) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the key directory: %w", err)
	}
	p := &PKI{dir: dir}
	var err error
	if p.ca, err = loadAuthority(p.CAFile(), p.path("ca.key"), "atoll-ca"); err != nil {
		return nil, err
	}
	if p.tenants, err = loadAuthority(p.path("tenants-ca.crt"), p.path("tenants-ca.key"), "atoll-tenants-ca"); err != nil {
		return nil, err
	}
	p.CAPEM, p.TenantsCAPEM = p.ca.pem, p.tenants.pem
	key, err := loadOrMakeKey(p.path("sa.key"))
	if err != nil {
		return nil, err
	}
	p.ServiceAccountKey = key
	return p, nil
}

// CAFile is the path of the certificate authority's certificate.
func (p *PKI) CAFile() string { return p.path("ca.crt") }

func (p *PKI) path(name string) string { return filepath.Join(p.dir, name) }

// Serving returns the files of a serving certificate for hosts (names and
// addresses), renewed if the present one does not fit.
func (p *PKI) Serving(hosts []string) (certFile, keyFile string, err error) {
	certFile, keyFile = p.path("server.crt"), p.path("server.key")
	if p.fits(certFile, hosts) {
		return certFile, keyFile, nil
	}
	key, err := loadOrMakeKey(keyFile)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "atoll"},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(certLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if h != "" {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	pem, err := p.ca.issue(template, key.Public())
	if err != nil {
		return "", "", fmt.Errorf("making the serving certificate: %w", err)
	}
	return certFile, keyFile, writeFile(certFile, append(pem, p.CAPEM...))
}

func (p *PKI) fits(certFile string, hosts []string) bool {
	pem, err := os.ReadFile(certFile)
	if err != nil {
		return false
	}
	certs, err := certutil.ParseCertsPEM(pem)
	if err != nil || time.Until(certs[0].NotAfter) < renewBefore || certs[0].CheckSignatureFrom(p.ca.cert) != nil {
		return false
	}
	for _, h := range hosts {
		if h != "" && certs[0].VerifyHostname(h) != nil {
			return false
		}
	}
	return true
}

// Client issues a certificate for a user with groups, and returns it and its
// key as PEM. Nothing is stored.
func (p *PKI) Client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return p.client(user, groups)
}

func (p *PKI) client(user string, groups []string, uris ...*url.URL) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client key: %w", err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, fmt.Errorf("encoding a client key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		NotBefore:   time.Now().Add(-registration.ByHandBackdate),
		NotAfter:    time.Now().Add(certLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        uris,
	}
	if certPEM, err = p.ca.issue(template, key.Public()); err != nil {
		return nil, nil, fmt.Errorf("making a client certificate: %w", err)
	}
	return certPEM, keyPEM, nil
}
