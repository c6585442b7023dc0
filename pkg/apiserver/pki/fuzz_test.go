package pki

import (
	"crypto/x509"
	"net/url"
	"testing"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// FuzzTenantOf: whatever URIs a certificate has, it is of one logical cluster, of a name that there may be and with a
// UID, or of none; one that is read is the one that SignTenant writes.
func FuzzTenantOf(f *testing.F) {
	for _, uri := range []string{
		clusterScheme + ":shop?uid=0f8c", clusterScheme + ":shop", clusterScheme + "://shop?uid=1", clusterScheme + ":root/../shop?uid=1",
		clusterScheme + ":shop?uid=1&uid=2", clusterScheme + ":%73hop?uid=1", clusterScheme + ":?uid=1", "https://shop?uid=1", ":",
	} {
		f.Add(uri, "")
	}
	f.Add(clusterScheme+":shop?uid=1", clusterScheme+":root?uid=1")
	f.Fuzz(func(t *testing.T, first, second string) {
		cert := &x509.Certificate{}
		for _, text := range []string{first, second} {
			if u, err := url.Parse(text); err == nil && text != "" {
				cert.URIs = append(cert.URIs, u)
			}
		}
		cluster, ok := ClusterOf(cert)
		if ok == (scope.ValidateName(cluster.String()) != "") {
			t.Errorf("%q, %q: cluster %q, %t", first, second, cluster, ok)
		}
		name, uid, ok := TenantOf(cert)
		if !ok {
			return
		}
		if uid == "" || name != cluster || scope.ValidateName(name.String()) != "" || len(cert.URIs) != 1 {
			t.Errorf("%q, %q: it is of %q with UID %q", first, second, name, uid)
		}
		again := &x509.Certificate{URIs: []*url.URL{{Scheme: clusterScheme, Opaque: name.String(), RawQuery: url.Values{uidKey: {string(uid)}}.Encode()}}}
		if n, u, ok := TenantOf(again); !ok || n != name || u != uid {
			t.Errorf("%q: %q and %q are read again as %q and %q", first, name, uid, n, u)
		}
	})
}
