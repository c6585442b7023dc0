package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
)

// SignSyncer signs the client certificate of a syncer. Of template count the public key, the
// common name, the organizations and the validity; everything else is ours. Who calls it
// has made sure that these are the name and the group of one syncer.
func (p *PKI) SignSyncer(template *x509.Certificate) ([]byte, error) {
	own := &x509.Certificate{
		Subject:               pkix.Name{CommonName: template.Subject.CommonName, Organization: template.Subject.Organization},
		NotBefore:             template.NotBefore,
		NotAfter:              template.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, // it is no authority
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
