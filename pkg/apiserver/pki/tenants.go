package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// clusterScheme and the name of a logical cluster make a URI in a certificate
// that is meant for that logical cluster. One of a tenant has its UID as well:
//
//	atoll-cluster:shop
//	atoll-cluster:shop?uid=0f8c...
const (
	clusterScheme = "atoll-cluster"
	uidKey        = "uid"
)

// ClusterOf returns the logical cluster that a client certificate is meant for:
// where its requests go whose path names none, as those of `kubectl proxy`. It
// says nothing about what the client may do.
func ClusterOf(cert *x509.Certificate) (logicalcluster.Name, bool) {
	for _, u := range cert.URIs {
		if u.Scheme == clusterScheme && scope.ValidateName(u.Opaque) == "" {
			return logicalcluster.Name(u.Opaque), true
		}
	}
	return "", false
}

// TenantOf returns the one logical cluster in which a certificate of the authority
// of tenants is good: that of this name, as long as it has this UID.
func TenantOf(cert *x509.Certificate) (logicalcluster.Name, types.UID, bool) {
	if len(cert.URIs) != 1 {
		return "", "", false
	}
	name, ok := ClusterOf(cert)
	uid := cert.URIs[0].Query().Get(uidKey)
	return name, types.UID(uid), ok && uid != ""
}

// SignTenant signs a client certificate for the logical cluster of this name and
// UID. Of template count the public key, the common name, the organizations, the
// validity and the usages that a client may have; everything else is ours.
func (p *PKI) SignTenant(cluster logicalcluster.Name, uid types.UID, template *x509.Certificate) ([]byte, error) {
	if problem := scope.ValidateName(cluster.String()); problem != "" || uid == "" {
		return nil, errors.New("signing a certificate: it needs a logical cluster with a UID")
	}
	own := &x509.Certificate{
		Subject:               pkix.Name{CommonName: template.Subject.CommonName, Organization: template.Subject.Organization},
		NotBefore:             template.NotBefore,
		NotAfter:              template.NotAfter,
		KeyUsage:              template.KeyUsage & (x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment),
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, // it is no authority
		URIs: []*url.URL{{Scheme: clusterScheme, Opaque: cluster.String(),
			RawQuery: url.Values{uidKey: {string(uid)}}.Encode()}},
	}
	if end := p.tenants.cert.NotAfter; own.NotAfter.After(end) {
		own.NotAfter = end
	}
	pem, err := p.tenants.issue(own, template.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return pem, nil
}
