package certificates

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// How long certificates are valid, as upstream: at most, at least, and how much
// earlier they begin, for clocks that are slow.
const (
	maxLifetime = 365 * 24 * time.Hour
	minLifetime = 10 * time.Minute
	backdate    = 5 * time.Minute
	// shortLifetime is below what is not shortened by backdate.
	shortLifetime = 8 * time.Hour
)

// How long requests are kept, as upstream.
const (
	keepPending = 24 * time.Hour
	keepSettled = time.Hour
)

// template says what to sign for an approved request; nil if nothing is to be
// done. An error says why it can never be signed.
//
//	signer   approved  denied, failed, signed  request    result
//	another  any       any                     any        nil
//	ours     no        any                     any        nil
//	ours     yes       yes                     any        nil
//	ours     yes       no                      good       template
//	ours     yes       no                      bad        error
func template(csr *certificatesv1.CertificateSigningRequest, now time.Time) (*x509.Certificate, error) {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || len(csr.Status.Certificate) > 0 ||
		!has(csr, certificatesv1.CertificateApproved) || has(csr, certificatesv1.CertificateDenied) || has(csr, certificatesv1.CertificateFailed) {
		return nil, nil
	}
	request, err := parse(csr.Spec.Request)
	if err != nil {
		return nil, err
	}
	usage, err := usages(csr.Spec.Usages)
	if err != nil {
		return nil, err
	}
	if request.Subject.CommonName == "" {
		return nil, errors.New("the subject has no common name, which is the name of the user")
	}
	for _, name := range append([]string{request.Subject.CommonName}, request.Subject.Organization...) {
		switch {
		case strings.HasPrefix(name, "system:"):
			return nil, fmt.Errorf("%q is reserved for the system: a certificate of a logical cluster cannot name it", name)
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("the subject has a name that is not UTF-8: %q", name)
		}
	}
	lifetime := lifetime(csr.Spec.ExpirationSeconds)
	end := now.Add(lifetime)
	if lifetime >= shortLifetime {
		end = end.Add(-backdate)
	}
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: request.Subject.CommonName, Organization: request.Subject.Organization},
		PublicKey: request.PublicKey, PublicKeyAlgorithm: request.PublicKeyAlgorithm,
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage: usage, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, nil
}

func parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("the request is no PEM block of type CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the request is not signed with its key: %w", err)
	}
	return request, nil
}

// usages are those that upstream's signer allows to clients.
func usages(all []certificatesv1.KeyUsage) (x509.KeyUsage, error) {
	var usage x509.KeyUsage
	for _, u := range all {
		switch u {
		case certificatesv1.UsageClientAuth:
		case certificatesv1.UsageDigitalSignature:
			usage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			usage |= x509.KeyUsageKeyEncipherment
		default:
			return 0, fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(all, certificatesv1.UsageClientAuth) {
		return 0, fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return usage, nil
}

func lifetime(seconds *int32) time.Duration {
	if seconds == nil {
		return maxLifetime
	}
	return min(max(time.Duration(*seconds)*time.Second, minLifetime), maxLifetime)
}

func has(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == kind && c.Status != corev1.ConditionFalse
	})
}

// obsolete is when a request is to be removed; the zero time means never. The
// earliest of these counts:
//
//	request                      removed after
//	without a condition          a day
//	approved and signed          an hour, or when its certificate ends
//	approved and not signed      a day
//	denied or failed             an hour
func obsolete(csr *certificatesv1.CertificateSigningRequest) time.Time {
	if len(csr.Status.Conditions) == 0 {
		return csr.CreationTimestamp.Add(keepPending)
	}
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	signed := len(csr.Status.Certificate) > 0
	for _, c := range csr.Status.Conditions {
		switch {
		case c.LastUpdateTime.IsZero():
		case c.Type == certificatesv1.CertificateDenied, c.Type == certificatesv1.CertificateFailed, c.Type == certificatesv1.CertificateApproved && signed:
			earlier(c.LastUpdateTime.Add(keepSettled))
		case c.Type == certificatesv1.CertificateApproved:
			earlier(c.LastUpdateTime.Add(keepPending))
		}
	}
	if end, ok := ends(csr.Status.Certificate); ok && has(csr, certificatesv1.CertificateApproved) {
		earlier(end)
	}
	return at
}

// ends is when the first certificate of data does; whoever signed it, it may be
// anything.
func ends(data []byte) (time.Time, bool) {
	block, _ := pem.Decode(data)
	if block == nil {
		return time.Time{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return cert.NotAfter, true
}
