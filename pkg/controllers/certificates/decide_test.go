package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	now    = time.Unix(1_000_000, 0)
	client = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}
)

// request is a signed request, with everything in it that a requester may try.
func request(t *testing.T, subject pkix.Name) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject,
		DNSNames: []string{"atoll"}, EmailAddresses: []string{"a@b"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{{Scheme: "atoll-cluster", Opaque: "root"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func ann(t *testing.T) []byte {
	return request(t, pkix.Name{CommonName: "ann", Organization: []string{"ops"}})
}

func condition(kind certificatesv1.RequestConditionType, at time.Time) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, LastUpdateTime: metav1.Time{Time: at}}
}

// approved is an approved request, changed by f.
func approved(t *testing.T, f func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", CreationTimestamp: metav1.Time{Time: now}},
		Spec: certificatesv1.CertificateSigningRequestSpec{Request: ann(t), SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: client}}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{condition(certificatesv1.CertificateApproved, now)}
	if f != nil {
		f(csr)
	}
	return csr
}

func TestWhichRequestIsSignedWithWhat(t *testing.T) {
	t.Parallel()
	type csr = certificatesv1.CertificateSigningRequest
	type signed struct {
		Subject   string
		From, To  time.Duration // from now
		Usage     x509.KeyUsage
		Usages    []x509.ExtKeyUsage
		Elsewhere int // names that are not of the subject
	}
	year := 365 * 24 * time.Hour
	ordinary := &signed{"CN=ann,O=ops", -5 * time.Minute, year - 5*time.Minute, 0, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, 0}
	with := func(f func(*signed)) *signed { s := *ordinary; f(&s); return &s }
	lasts := func(seconds int32, want time.Duration) struct {
		change  func(*csr)
		want    *signed
		problem string
	} {
		return struct {
			change  func(*csr)
			want    *signed
			problem string
		}{func(r *csr) { r.Spec.ExpirationSeconds = &seconds }, with(func(s *signed) { s.To = want }), ""}
	}
	named := func(subject pkix.Name) func(*csr) { return func(r *csr) { r.Spec.Request = request(t, subject) } }
	used := func(all ...certificatesv1.KeyUsage) func(*csr) { return func(r *csr) { r.Spec.Usages = all } }
	also := func(kind certificatesv1.RequestConditionType) func(*csr) {
		return func(r *csr) { r.Status.Conditions = append(r.Status.Conditions, condition(kind, now)) }
	}
	for name, tc := range map[string]struct {
		change  func(*csr)
		want    *signed
		problem string
	}{
		"an approved one": {want: ordinary},
		"all usages of a client": {used(certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment),
			with(func(s *signed) { s.Usage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment }), ""},
		"for an hour":                 lasts(3600, time.Hour),
		"for a day":                   lasts(86400, 24*time.Hour-5*time.Minute),
		"for less than allowed":       lasts(1, 10*time.Minute),
		"for longer than allowed":     lasts(1<<30, year-5*time.Minute),
		"not approved":                {func(r *csr) { r.Status.Conditions = nil }, nil, ""},
		"approved and denied":         {also(certificatesv1.CertificateDenied), nil, ""},
		"failed":                      {also(certificatesv1.CertificateFailed), nil, ""},
		"signed already":              {func(r *csr) { r.Status.Certificate = []byte("x") }, nil, ""},
		"of a kubelet, as client":     {func(r *csr) { r.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName }, nil, ""},
		"of a kubelet, as server":     {func(r *csr) { r.Spec.SignerName = certificatesv1.KubeletServingSignerName }, nil, ""},
		"of a signer long ago":        {func(r *csr) { r.Spec.SignerName = "kubernetes.io/legacy-unknown" }, nil, ""},
		"of somebody's signer":        {func(r *csr) { r.Spec.SignerName = "example.org/mine" }, nil, ""},
		"for a server":                {used(certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth), nil, "invalid usage for client certificate: server auth"},
		"for signing":                 {used(certificatesv1.UsageClientAuth, certificatesv1.UsageCertSign), nil, "invalid usage for client certificate: cert sign"},
		"not for a client":            {used(certificatesv1.UsageDigitalSignature), nil, "missing required usage for client certificate: client auth"},
		"of nobody":                   {named(pkix.Name{Organization: []string{"ops"}}), nil, "no common name"},
		"of the server":               {named(pkix.Name{CommonName: "system:apiserver"}), nil, `"system:apiserver" is reserved`},
		"of a syncer":                 {named(pkix.Name{CommonName: "system:atoll:syncer:east"}), nil, "is reserved"},
		"of a node":                   {named(pkix.Name{CommonName: "system:node:a"}), nil, "is reserved"},
		"of a service account":        {named(pkix.Name{CommonName: "system:serviceaccount:default:default"}), nil, "is reserved"},
		"of the admins of the server": {named(pkix.Name{CommonName: "ann", Organization: []string{"ops", "system:masters"}}), nil, `"system:masters" is reserved`},
		"of the group of syncers":     {named(pkix.Name{CommonName: "ann", Organization: []string{"system:atoll:syncers"}}), nil, "is reserved"},
		"without a request":           {func(r *csr) { r.Spec.Request = nil }, nil, "no PEM block"},
		"with something else inside": {func(r *csr) {
			r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})
		}, nil, "reading the request"},
		"with a name that was replaced": {func(r *csr) { r.Spec.Request = forged(t) }, nil, "not signed with its key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template, err := template(approved(t, tc.change), now)
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Fatalf("%v, want %q", err, tc.problem)
			}
			var got *signed
			if template != nil {
				got = &signed{template.Subject.String(), template.NotBefore.Sub(now), template.NotAfter.Sub(now), template.KeyUsage, template.ExtKeyUsage,
					len(template.DNSNames) + len(template.EmailAddresses) + len(template.IPAddresses) + len(template.URIs) + len(template.ExtraExtensions)}
				if _, ok := template.PublicKey.(*ecdsa.PublicKey); !ok || template.IsCA {
					t.Errorf("key %T, authority %v", template.PublicKey, template.IsCA)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// forged is a request in which another name was put than was signed.
func forged(t *testing.T) []byte {
	t.Helper()
	block, _ := pem.Decode(request(t, pkix.Name{CommonName: "ann"}))
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: []byte(strings.Replace(string(block.Bytes), "ann", "bob", 1))})
}

func TestWhenRequestsAreRemoved(t *testing.T) {
	t.Parallel()
	type csr = certificatesv1.CertificateSigningRequest
	certificate := func(lasts time.Duration) []byte {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: now.Add(lasts)}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	later := now.Add(time.Minute)
	for name, tc := range map[string]struct {
		change func(*csr)
		want   *time.Duration // from now; nil for never
	}{
		"pending":                          {func(r *csr) { r.Status.Conditions = nil }, ptr.To(24 * time.Hour)},
		"approved":                         {nil, ptr.To(24 * time.Hour)},
		"approved and signed":              {func(r *csr) { r.Status.Certificate = certificate(24 * time.Hour) }, ptr.To(time.Hour)},
		"approved, signed for ten minutes": {func(r *csr) { r.Status.Certificate = certificate(10 * time.Minute) }, ptr.To(10 * time.Minute)},
		"approved, signed with nonsense":   {func(r *csr) { r.Status.Certificate = []byte("x") }, ptr.To(time.Hour)},
		"denied": {func(r *csr) {
			r.Status.Conditions = r.Status.Conditions[:0]
			r.Status.Conditions = append(r.Status.Conditions, condition(certificatesv1.CertificateDenied, later))
		}, ptr.To(time.Hour + time.Minute)},
		"approved and failed": {func(r *csr) {
			r.Status.Conditions = append(r.Status.Conditions, condition(certificatesv1.CertificateFailed, later))
		}, ptr.To(time.Hour + time.Minute)},
		"with a condition of somebody": {func(r *csr) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{condition("Seen", now)}
		}, nil},
		"approved at no time": {func(r *csr) { r.Status.Conditions[0].LastUpdateTime = metav1.Time{} }, nil},
	} {
		var got *time.Duration
		if at := obsolete(approved(t, tc.change)); !at.IsZero() {
			got = ptr.To(at.Sub(now))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
