// Package pki makes and keeps the keys of a control plane: one certificate
// authority for servers and clients, the serving certificate, the admin's client
// certificate and the key that signs service account tokens.
//
// Everything is in one directory, made on first start and kept. Only a serving
// certificate that no longer fits (another address, close to its end) is renewed.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	certLifetime = 365 * 24 * time.Hour
	renewBefore  = 30 * 24 * time.Hour
)

// PKI is the loaded directory.
type PKI struct {
	dir   string
	ca    *x509.Certificate
	caKey crypto.Signer
	// CAPEM is the certificate authority.
	CAPEM []byte
	// ServiceAccountKey signs service account tokens.
	ServiceAccountKey *ecdsa.PrivateKey
}

// Load reads the directory, and makes what is missing.
func Load(dir string) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the key directory: %w", err)
	}
	p := &PKI{dir: dir}
	if err := p.loadCA(); err != nil {
		return nil, err
	}
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

func (p *PKI) loadCA() error {
	key, err := loadOrMakeKey(p.path("ca.key"))
	if err != nil {
		return err
	}
	p.caKey = key
	if pem, err := os.ReadFile(p.CAFile()); err == nil {
		certs, err := certutil.ParseCertsPEM(pem)
		if err != nil {
			return fmt.Errorf("reading %s: %w", p.CAFile(), err)
		}
		p.ca, p.CAPEM = certs[0], pem
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "atoll-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(caLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	p.ca, p.CAPEM, err = sign(template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("making the certificate authority: %w", err)
	}
	return writeFile(p.CAFile(), p.CAPEM)
}

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
	_, pem, err := sign(template, p.ca, key.Public(), p.caKey)
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
	if err != nil || time.Until(certs[0].NotAfter) < renewBefore || certs[0].CheckSignatureFrom(p.ca) != nil {
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client key: %w", err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, fmt.Errorf("encoding a client key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(certLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if _, certPEM, err = sign(template, p.ca, key.Public(), p.caKey); err != nil {
		return nil, nil, fmt.Errorf("making a client certificate: %w", err)
	}
	return certPEM, keyPEM, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	pem, err := certutil.EncodeCertificates(cert)
	return cert, pem, err
}

func loadOrMakeKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("making a key: %w", err)
		}
		if data, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return nil, fmt.Errorf("encoding a key: %w", err)
		}
		return key, writeFile(path, data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("reading %s: an ECDSA key is needed, this is %T", path, parsed)
	}
	return key, nil
}

// writeFile replaces path in one step, so that a crash leaves the old or the new.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
