package registration

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

const (
	// Signer signs the certificates of syncers.
	Signer = "fleet.atoll.dev/syncer"
	// Group is that of all syncers, userPrefix is followed by the physical cluster of one.
	Group      = "system:atoll:syncers"
	userPrefix = "system:atoll:syncer:"
	// accountPrefix is followed by the physical cluster for which an account of the
	// namespace fleetv1alpha1.LeaseNamespace of root asks.
	accountPrefix = "register-"
	// maxRequest bounds a request, in bytes.
	maxRequest = 8 << 10
	// LifetimeSeconds is how long a certificate is asked for.
	LifetimeSeconds = 30 * 24 * 60 * 60
)

var usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}

// User is the name of the syncer of a physical cluster.
func User(physicalCluster string) string { return userPrefix + physicalCluster }

// Account is the ServiceAccount in root that asks for the first certificate of a physical
// cluster.
func Account(physicalCluster string) string { return accountPrefix + physicalCluster }

// AccountOf is the physical cluster for which the user of root asks, if he is such a
// ServiceAccount.
func AccountOf(user string) (physicalCluster string, ok bool) {
	return strings.CutPrefix(user, "system:serviceaccount:"+fleetv1alpha1.LeaseNamespace+":"+accountPrefix)
}

// Name is that of the first request for a physical cluster.
func Name(physicalCluster string) string { return "syncer." + physicalCluster + ".first" }

// RenewalName is that of the request which renews the certificate of a PhysicalCluster: who had the
// name of that before leaves nothing that is in its way. A syncer whose certificate has no UID does
// not know it, nor does one from before there was any.
func RenewalName(physicalCluster string, uid types.UID) string {
	if uid == "" {
		return "syncer." + physicalCluster + ".renewal"
	}
	return "syncer." + physicalCluster + "." + string(uid) + ".renewal"
}

// NamesOf are the names of the requests that a user of root may make and read; there are none
// if he is none who asks. uid is that of the PhysicalCluster whose syncer he is.
func NamesOf(user string, groups []string, uid types.UID) []string {
	if pc, is := AccountOf(user); is {
		return []string{Name(pc)}
	}
	if pc, is := strings.CutPrefix(user, userPrefix); is && slices.Contains(groups, Group) {
		return slices.Compact([]string{RenewalName(pc, uid), RenewalName(pc, "")})
	}
	return nil
}

// New makes the first request with key, for the physical cluster.
func New(physicalCluster string, key crypto.Signer) (*certificatesv1.CertificateSigningRequest, error) {
	return request(Name(physicalCluster), physicalCluster, key)
}

// Renew makes a request that renews a certificate, which has this UID, with key.
func Renew(physicalCluster string, uid types.UID, key crypto.Signer) (*certificatesv1.CertificateSigningRequest, error) {
	return request(RenewalName(physicalCluster, uid), physicalCluster, key)
}

func request(name, physicalCluster string, key crypto.Signer) (*certificatesv1.CertificateSigningRequest, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: User(physicalCluster), Organization: []string{Group}},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("making a request for a certificate: %w", err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: Signer, Usages: usages, ExpirationSeconds: ptr.To[int32](LifetimeSeconds),
		},
	}, nil
}

// Fingerprint tells a key from others, in what a syncer logs and an admin sees.
func Fingerprint(publicKey crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return "", fmt.Errorf("encoding a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:]), nil
}

// Parse reads what is in a request, and that its key has signed it.
func Parse(data []byte) (*x509.CertificateRequest, error) {
	if len(data) > maxRequest {
		return nil, fmt.Errorf("the request has %d bytes, more than %d", len(data), maxRequest)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return nil, errors.New("the request is not one PEM block of type CERTIFICATE REQUEST")
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

// Check says for which physical cluster a request of the signer is, and whether it renews a
// certificate: then nobody has to approve it. An error says why it is never signed.
//
//	made by (spec.username)              its name                                 its subject         then
//	the account of T, register-T         syncer.T.first                           syncer T, the group for T
//	the syncer of T, with a certificate  syncer.T.UID.renewal or syncer.T.renewal syncer T, the group for T, renews
//	either, for another T or UID         any                                      any                 error
//	anyone else                          any                                      any                 error
func Check(csr *certificatesv1.CertificateSigningRequest) (physicalCluster string, renews bool, request *x509.CertificateRequest, err error) {
	names := NamesOf(csr.Spec.Username, csr.Spec.Groups, UIDOf(csr.Spec.Extra))
	if len(names) == 0 {
		return "", false, nil, fmt.Errorf("user %q registers no physical cluster: kubectl atoll register NAME --agent makes who does", csr.Spec.Username)
	}
	if !slices.Contains(names, csr.Name) {
		return "", false, nil, fmt.Errorf("this user makes one request, called %q", names[0])
	}
	physicalCluster, first := AccountOf(csr.Spec.Username)
	if !first {
		physicalCluster = strings.TrimPrefix(csr.Spec.Username, userPrefix)
	}
	if request, err = Parse(csr.Spec.Request); err != nil {
		return "", false, nil, err
	}
	switch {
	case csr.Spec.SignerName != Signer:
		err = fmt.Errorf("signer %q is not the one of syncers, %s", csr.Spec.SignerName, Signer)
	case request.Subject.CommonName != User(physicalCluster) || !slices.Equal(request.Subject.Organization, []string{Group}):
		err = fmt.Errorf("the subject is not that of the syncer of %s: common name %q, organization %q", physicalCluster, User(physicalCluster), Group)
	case len(request.Subject.Names) != 2 || len(request.DNSNames)+len(request.IPAddresses)+len(request.EmailAddresses)+len(request.URIs) > 0:
		err = errors.New("the request names more than the syncer")
	case !slices.Equal(csr.Spec.Usages, usages):
		err = fmt.Errorf("the usages are not %v", usages)
	}
	if err != nil {
		return "", false, nil, err
	}
	return physicalCluster, !first, request, nil
}
