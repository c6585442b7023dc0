package registration

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
)

func key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// made is a request as the server has it, with who made it.
func made(t *testing.T, physicalCluster string, renews bool, user string, groups ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr, err := New(physicalCluster, key(t))
	if renews {
		csr, err = Renew(physicalCluster, "", key(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	csr.Spec.Username, csr.Spec.Groups = user, groups
	return csr
}

// withUID is a renewal by the syncer of east, of this UID, under the name for a UID.
func withUID(t *testing.T, of, named types.UID) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := made(t, "east", true, User("east"), Group)
	csr.Name, csr.Spec.Extra = RenewalName("east", named), map[string]certificatesv1.ExtraValue{UIDKey: {string(of)}}
	return csr
}

func subject(t testing.TB, template x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key(t))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestARequestIsForThePhysicalClusterOfWhoMakesIt(t *testing.T) {
	t.Parallel()
	const account = "system:serviceaccount:atoll-system:register-east"
	for name, c := range map[string]struct {
		csr    *certificatesv1.CertificateSigningRequest
		change func(*certificatesv1.CertificateSigningRequest)
		want   string
		renews bool
		wrong  string
	}{
		"the first":                       {csr: made(t, "east", false, account), want: "east"},
		"one that renews":                 {csr: made(t, "east", true, User("east"), Group), want: "east", renews: true},
		"one that renews, with its UID":   {csr: withUID(t, "1", "1"), want: "east", renews: true},
		"by one that does not know it":    {csr: withUID(t, "1", ""), want: "east", renews: true},
		"in the place of a successor":     {csr: withUID(t, "1", "2"), wrong: "one request"},
		"with a UID that nobody checked":  {csr: withUID(t, "", "2"), wrong: "one request"},
		"for another physical cluster":    {csr: made(t, "west", false, account), wrong: "one request"},
		"for another, under its own name": {csr: made(t, "west", false, account), change: func(r *certificatesv1.CertificateSigningRequest) { r.Name = "syncer.east.first" }, wrong: "subject"},
		"a renewal for another":           {csr: made(t, "west", true, User("east"), Group), wrong: "one request"},
		"a renewal without a certificate": {csr: made(t, "east", true, account), wrong: "one request"},
		"a syncer's name alone":           {csr: made(t, "east", true, User("east")), wrong: "registers no physical cluster"},
		"an account of another namespace": {csr: made(t, "east", false, "system:serviceaccount:default:register-east"), wrong: "registers no physical cluster"},
		"an admin":                        {csr: made(t, "east", false, "admin", "system:masters"), wrong: "registers no physical cluster"},
		"another signer": {csr: made(t, "east", false, account), change: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.SignerName = "kubernetes.io/kube-apiserver-client"
		}, wrong: "signer"},
		"usages of a server": {csr: made(t, "east", false, account), change: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
		}, wrong: "usages"},
		"an admin's group": {csr: made(t, "east", false, account), change: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = subject(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: User("east"), Organization: []string{Group, "system:masters"}}})
		}, wrong: "subject"},
		"a host": {csr: made(t, "east", false, account), change: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = subject(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: User("east"), Organization: []string{Group}}, DNSNames: []string{"x"}})
		}, wrong: "names more"},
		"no request":            {csr: made(t, "east", false, account), change: func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") }, wrong: "PEM"},
		"a request without end": {csr: made(t, "east", false, account), change: func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = make([]byte, 9<<10) }, wrong: "bytes"},
		"a key that did not sign it": {csr: made(t, "east", false, account), change: func(r *certificatesv1.CertificateSigningRequest) {
			block, _ := pem.Decode(r.Spec.Request)
			block.Bytes[len(block.Bytes)-1] ^= 1
			r.Spec.Request = pem.EncodeToMemory(block)
		}, wrong: "not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.csr)
			}
			got, renews, request, err := Check(c.csr)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("got %q, %v; want an error with %q", got, err, c.wrong)
				}
				return
			}
			if err != nil || got != c.want || renews != c.renews || request == nil {
				t.Errorf("got %q, %v, %v", got, renews, err)
			}
		})
	}
}

func TestKeysHaveFingerprintsOfTheirOwn(t *testing.T) {
	t.Parallel()
	a, b := key(t), key(t)
	first, err := Fingerprint(a.Public())
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Fingerprint(a.Public())
	other, _ := Fingerprint(b.Public())
	if first != again || first == other || !strings.HasPrefix(first, "SHA256:") {
		t.Errorf("%s, %s, %s", first, again, other)
	}
}

// FuzzParse: a request that is read is short, signed with its key, and read again as it is.
func FuzzParse(f *testing.F) {
	good, err := New("east", key(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.Spec.Request)
	f.Add(append(good.Spec.Request, good.Spec.Request...))
	f.Add(subject(f, x509.CertificateRequest{Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{"b"}}))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"))
	f.Fuzz(func(t *testing.T, data []byte) {
		request, err := Parse(data)
		if err != nil {
			return
		}
		if err := request.CheckSignature(); err != nil || len(data) > maxRequest {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		written := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request.Raw})
		if len(written) > maxRequest {
			return // in longer lines it is shorter
		}
		if again, err := Parse(written); err != nil || !bytes.Equal(again.Raw, request.Raw) {
			t.Errorf("%q is not read again: %v", data, err)
		}
	})
}
