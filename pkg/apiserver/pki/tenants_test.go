package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"
)

func signed(t *testing.T, p *PKI, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.PublicKey = key.Public()
	pem, err := p.SignTenant("shop", "0f8c", template)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := certutil.ParseCertsPEM(pem)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func load(t *testing.T, dir string) *PKI {
	t.Helper()
	p, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestACertificateOfATenantHasNothingButWhatATenantMayHave(t *testing.T) {
	t.Parallel()
	p := load(t, t.TempDir())
	start := time.Now().Truncate(time.Second).UTC()
	got := signed(t, p, &x509.Certificate{
		Subject:   pkix.Name{CommonName: "ann", Organization: []string{"ops"}, OrganizationalUnit: []string{"x"}, ExtraNames: []pkix.AttributeTypeAndValue{{Type: []int{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "uid"}}},
		NotBefore: start, NotAfter: start.Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageAny},
		URIs: []*url.URL{{Scheme: clusterScheme, Opaque: "root", RawQuery: "uid=1"}}, DNSNames: []string{"atoll"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, EmailAddresses: []string{"a@b"},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 17}, Value: []byte{0x30, 0}}},
	})
	type content struct {
		Subject          string
		From, To         time.Time
		CA               bool
		Usage            x509.KeyUsage
		Usages           []x509.ExtKeyUsage
		URIs             []string
		DNS, Mail, Other int
	}
	want := content{"CN=ann,O=ops", start, start.Add(time.Hour), false, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		[]string{"atoll-cluster:shop?uid=0f8c"}, 0, 0, 0}
	is := content{got.Subject.String(), got.NotBefore, got.NotAfter, got.IsCA, got.KeyUsage, got.ExtKeyUsage, nil, len(got.DNSNames), len(got.EmailAddresses), len(got.IPAddresses)}
	for _, u := range got.URIs {
		is.URIs = append(is.URIs, u.String())
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Error(diff)
	}
	if got.CheckSignatureFrom(p.tenants.cert) != nil || got.CheckSignatureFrom(p.ca.cert) == nil {
		t.Error("it must be signed by the authority of tenants, and by no other")
	}
}

func TestACertificateOfATenantNamesItsLogicalCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert := signed(t, load(t, dir), &x509.Certificate{Subject: pkix.Name{CommonName: "ann"}, NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour)})
	name, uid, ok := TenantOf(cert)
	if name != "shop" || uid != "0f8c" || !ok {
		t.Errorf("it is of %q, %q, %v", name, uid, ok)
	}
	again := load(t, dir)
	if cert.CheckSignatureFrom(again.tenants.cert) != nil {
		t.Error("the authority is another one after a restart")
	}
	if cert.NotAfter.After(again.tenants.cert.NotAfter) {
		t.Error("it outlives its authority")
	}
}

func TestOnlyOneURIWithAUIDNamesTheLogicalClusterOfATenant(t *testing.T) {
	t.Parallel()
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, uris := range map[string][]*url.URL{
		"none":           nil,
		"no UID":         {uri("atoll-cluster:shop")},
		"another scheme": {uri("https:shop?uid=1")},
		"no name":        {uri("atoll-cluster:?uid=1")},
		"all of them":    {uri("atoll-cluster:*?uid=1")},
		"two":            {uri("atoll-cluster:shop?uid=1"), uri("atoll-cluster:root?uid=2")},
	} {
		if c, uid, ok := TenantOf(&x509.Certificate{URIs: uris}); ok {
			t.Errorf("%s: %q, %q", name, c, uid)
		}
	}
}

func TestACertificateWithoutALogicalClusterIsNotSigned(t *testing.T) {
	t.Parallel()
	p := load(t, t.TempDir())
	for name, uid := range map[logicalcluster.Name]types.UID{"shop": "", "": "1", "*": "1"} {
		if _, err := p.SignTenant(name, uid, &x509.Certificate{}); err == nil {
			t.Errorf("signed for %q with UID %q", name, uid)
		}
	}
}
