package podadmission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
)

// certificateAge is how old a certificate becomes; it is good for a year.
const certificateAge = 180 * 24 * time.Hour

// authority signs the certificates of a Server; it ends with the process. API servers learn of
// it from the configurations of webhooks.
type authority struct {
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
	pem []byte

	mu    sync.Mutex
	made  time.Time
	hosts []string
	last  *tls.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "atoll-pod-admission", NotBefore: time.Now().Add(-time.Hour)}, key)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	pem, err := cert.EncodeCertificates(ca)
	if err != nil {
		return nil, fmt.Errorf("encoding an authority: %w", err)
	}
	return &authority{ca: ca, key: key, pem: pem}, nil
}

// certificate is one for hosts; the last one is kept.
func (a *authority) certificate(hosts []string) (*tls.Certificate, error) {
	if len(hosts) == 0 {
		return nil, errors.New("nobody is answered at this name")
	}
	slices.Sort(hosts)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.last != nil && slices.Equal(hosts, a.hosts) && now.Sub(a.made) < certificateAge {
		return a.last, nil
	}
	template := &x509.Certificate{
		Subject: a.ca.Subject, NotBefore: a.ca.NotBefore, NotAfter: now.Add(2 * certificateAge),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, h)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	a.made, a.hosts, a.last = now, hosts, &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return a.last, nil
}
