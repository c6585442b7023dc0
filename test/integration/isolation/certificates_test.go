package isolation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certificate is one that mallory approves for the victim's owner in her logical
// cluster; the request says that it is for the victim's.
func (w *world) certificate(t *testing.T, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	lc, err := w.Atoll.TenancyV1alpha1().LogicalClusters().Get(cluster("root"), "victim", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "victor"}, URIs: victims(string(lc.UID))}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := w.mallory.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(w.evil, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "victor-"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Mine"}}
	if csr, err = requests.UpdateApproval(w.evil, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 20*time.Second, "the certificate is there", func() error {
		csr, err = requests.Get(w.evil, csr.Name, metav1.GetOptions{})
		if err == nil && len(csr.Status.Certificate) == 0 {
			err = errors.New("it is not")
		}
		return err
	})
	block, _ := pem.Decode(csr.Status.Certificate)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func victims(uid string) []*url.URL {
	return []*url.URL{{Scheme: "atoll-cluster", Opaque: "victim", RawQuery: "uid=" + uid}}
}

// with is a client that shows a chain of certificates, the first of which is of key.
func with(key *ecdsa.PrivateKey, chain ...*x509.Certificate) *http.Client {
	own := tls.Certificate{PrivateKey: key}
	for _, c := range chain {
		own.Certificate = append(own.Certificate, c.Raw)
	}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		// Whatever the server asks for, this one is shown.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }}}}
}

func TestACertificateThatATenantApprovedLeadsNowhereElse(t *testing.T) {
	w := shared(t)
	key := newKey(t)
	own := w.certificate(t, key)
	victor := with(key, own)
	if status, reply := w.send(t, victor, http.MethodGet, "/clusters/evil/version", "", ""); status != http.StatusOK {
		t.Fatalf("at home: %d %.200s", status, reply)
	}
	for _, path := range elsewhere {
		status, reply := w.send(t, victor, http.MethodGet, path, "", "")
		if leaks(reply) || status/100 == 2 || status >= 500 {
			t.Errorf("GET %s: %d %.200s", path, status, reply)
		}
	}
	for _, path := range []string{"", "/version", "/livez", "/apis", "/api/v1/secrets"} {
		for _, name := range []string{"victim", "nowhere", "root"} {
			if status, reply := w.send(t, victor, http.MethodGet, "/clusters/"+name+path, "", ""); status != http.StatusUnauthorized {
				t.Errorf("GET /clusters/%s%s: %d %.200s, want 401", name, path, status, reply)
			}
		}
	}
}

func TestACertificateThatATenantMadeIsNoCertificate(t *testing.T) {
	w := shared(t)
	key := newKey(t)
	own := w.certificate(t, key)
	lc, err := w.Atoll.TenancyV1alpha1().LogicalClusters().Get(cluster("root"), "victim", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forge := func(name string, signer *ecdsa.PrivateKey, parent *x509.Certificate, uris []*url.URL) (*ecdsa.PrivateKey, *x509.Certificate) {
		t.Helper()
		key, c := newKey(t), &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}}, URIs: uris,
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if parent == nil {
			parent, signer = c, key
			c.IsCA, c.BasicConstraintsValid = true, true
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return key, c
	}
	// Authorities of her own: one of any name, and ones that are named as ours are.
	anyKey, anyCA := forge("atoll-ca", nil, nil, nil)
	twinKey, twin := forge("atoll-tenants-ca", nil, nil, nil)
	for name, chain := range map[string]struct {
		signer *ecdsa.PrivateKey
		parent *x509.Certificate
	}{"signed with her certificate": {key, own}, "of an authority of hers": {anyKey, anyCA}, "of one named as ours": {twinKey, twin}} {
		for _, uris := range [][]*url.URL{nil, victims(string(lc.UID)), own.URIs} {
			leafKey, leaf := forge("victor", chain.signer, chain.parent, uris)
			for _, path := range []string{"/clusters/victim/api/v1/secrets", "/clusters/evil/api/v1/secrets", "/api/v1/secrets"} {
				status, reply := w.send(t, with(leafKey, leaf, chain.parent), http.MethodGet, path, "", "")
				if status != http.StatusUnauthorized && (status != http.StatusNotFound || len(uris) > 0) {
					t.Errorf("%s, GET %s: %d %.200s, want 401", name, path, status, reply)
				}
			}
		}
	}
}
