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
	"os"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// loadAuthority reads an authority from its files, or makes it under name.
func loadAuthority(certFile, keyFile, name string) (*authority, error) {
	key, err := loadOrMakeKey(keyFile)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(certFile)
	if err == nil {
		certs, err := certutil.ParseCertsPEM(data)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", certFile, err)
		}
		return &authority{cert: certs[0], key: key, pem: data}, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(caLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	cert, data, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority: %w", err)
	}
	return &authority{cert: cert, key: key, pem: data}, writeFile(certFile, data)
}

// issue signs template for the key of its owner.
func (a *authority) issue(template *x509.Certificate, public crypto.PublicKey) (certPEM []byte, err error) {
	_, certPEM, err = sign(template, a.cert, public, a.key)
	return certPEM, err
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
