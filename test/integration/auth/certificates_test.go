package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// signingRequest is a request for a client certificate, and its key.
func signingRequest(t *testing.T, name string, subject pkix.Name) (*certificatesv1.CertificateSigningRequest, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
	}}, keyPEM
}

// approve is what kubectl certificate approve does.
func approve(ctx context.Context, kube kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest) error {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KubectlApprove", Message: "This CSR was approved by kubectl certificate approve."})
	_, err := kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
	return err
}

// answered makes and approves csr, and returns it when it has a certificate or failed.
func answered(ctx context.Context, t *testing.T, kube kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	requests := kube.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(ctx, csr, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := approve(ctx, kube, csr); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request is answered", func() error {
		if csr, err = requests.Get(ctx, csr.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if len(csr.Status.Certificate) == 0 && len(csr.Status.Conditions) < 2 {
			return fmt.Errorf("conditions %v", csr.Status.Conditions)
		}
		return nil
	})
	return csr
}

// certified is a configuration with a certificate of the logical cluster of ctx; it
// names no logical cluster.
func certified(ctx context.Context, t *testing.T, s *server.Server, kube kubernetes.Interface, name string, groups ...string) *rest.Config {
	t.Helper()
	csr, key := signingRequest(t, name, pkix.Name{CommonName: name, Organization: groups})
	config := rest.AnonymousClientConfig(s.Config)
	config.CertData, config.KeyData = answered(ctx, t, kube, csr).Status.Certificate, key
	if len(config.CertData) == 0 {
		t.Fatal("the request was not signed")
	}
	return config
}

func TestACertificateOfALogicalClusterNamesItsUserThereOnly(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "cert-a"), s.NewCluster(t, "cert-b")
	config := certified(a, t, s, s.Kube, "carla", "ops")
	certs, err := certutil.ParseCertsPEM(config.CertData)
	if err != nil || len(certs) != 1 || certs[0].IsCA || len(certs[0].URIs) != 1 || !strings.HasPrefix(certs[0].URIs[0].String(), "atoll-cluster:cert-a?uid=") {
		t.Fatalf("certificate %v, %v", certs, err)
	}
	for _, ctx := range []context.Context{a, b} {
		bind(ctx, t, s, "view", "carla")
	}
	who := func(ctx context.Context, kube kubernetes.Interface) (authenticationv1.UserInfo, error) {
		review, err := kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return authenticationv1.UserInfo{}, err
		}
		return review.Status.UserInfo, nil
	}
	carla := client(config)
	var u authenticationv1.UserInfo
	eventually(t, "carla asks who she is", func() (err error) {
		u, err = who(a, carla)
		return err
	})
	if groups := []string{"ops", "system:authenticated"}; u.Username != "carla" || u.UID != "" || !slices.Equal(u.Groups, groups) {
		t.Errorf("she is %+v", u)
	}
	if u, err := who(t.Context(), kubernetes.NewForConfigOrDie(config)); err != nil || u.Username != "carla" {
		t.Errorf("without a path: %+v, %v", u, err)
	}
	for name, ctx := range map[string]context.Context{"another one": b, "root": in(t, "root"), "all": in(t, "*"), "none": in(t, "nowhere"),
		"the view of a physical cluster": scope.WithTarget(b, "east")} {
		if u, err := who(ctx, carla); !apierrors.IsUnauthorized(err) {
			t.Errorf("in %s: %+v, %v; want Unauthorized", name, u, err)
		}
	}
	if u, err := who(scope.WithTarget(a, "east"), carla); !apierrors.IsForbidden(err) {
		t.Errorf("in the view of a physical cluster, of her logical cluster: %+v, %v; want Forbidden", u, err)
	}
}

func TestACertificateEndsWithItsLogicalCluster(t *testing.T) {
	s := shared(t)
	ctx, root := s.NewCluster(t, "cert-old"), in(t, "root")
	kube := client(certified(ctx, t, s, s.Kube, "carla"))
	bind(ctx, t, s, "view", "carla")
	list := func() error {
		_, err := kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	}
	eventually(t, "carla reads", list)
	clusters := s.Atoll.TenancyV1alpha1().LogicalClusters()
	if err := clusters.Delete(root, "cert-old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the logical cluster is gone", func() error {
		if _, err := clusters.Get(root, "cert-old", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	// Roles may be seen to be gone before the logical cluster is: she reads nothing either way.
	eventually(t, "her certificate has ended", func() error {
		err := list()
		if err == nil {
			t.Fatal("carla reads what is gone")
		}
		if !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("%w, want Unauthorized", err)
		}
		return nil
	})
	s.NewCluster(t, "cert-old")
	bind(ctx, t, s, "view", "carla")
	eventually(t, "carla's role is known", func() error {
		_, err := as(s, "carla").CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	})
	if err := list(); !apierrors.IsUnauthorized(err) {
		t.Errorf("in a logical cluster of the same name: %v, want Unauthorized", err)
	}
}

func TestNoCertificateNamesTheSystem(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "cert-system")
	masters, _ := signingRequest(t, "masters", pkix.Name{CommonName: "carla", Organization: []string{"system:masters"}})
	if _, err := s.Kube.CertificatesV1().CertificateSigningRequests().Create(ctx, masters, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the group system:masters: %v, want Forbidden", err)
	}
	kubelet, _ := signingRequest(t, "kubelet", pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}})
	kubelet.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	left, err := s.Kube.CertificatesV1().CertificateSigningRequests().Create(ctx, kubelet, metav1.CreateOptions{})
	if err == nil {
		err = approve(ctx, s.Kube, left)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []pkix.Name{
		{CommonName: "system:apiserver"}, {CommonName: "system:atoll:syncer:east", Organization: []string{"system:atoll:syncers"}},
		{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, {CommonName: "system:serviceaccount:kube-system:default"},
	} {
		csr, _ := signingRequest(t, strings.ReplaceAll(subject.CommonName, ":", "-"), subject)
		got := answered(ctx, t, s.Kube, csr)
		failed := slices.ContainsFunc(got.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateFailed && c.Reason == "SignerValidationFailure" && strings.Contains(c.Message, "reserved")
		})
		if !failed || len(got.Status.Certificate) > 0 {
			t.Errorf("%s: %+v", subject, got.Status)
		}
	}
	if left, err = s.Kube.CertificatesV1().CertificateSigningRequests().Get(ctx, "kubelet", metav1.GetOptions{}); err != nil || len(left.Status.Certificate) > 0 || len(left.Status.Conditions) != 1 {
		t.Errorf("the request of a kubelet: %+v, %v", left.Status, err)
	}
}

func TestRolesSayWhoApprovesCertificates(t *testing.T) {
	s := shared(t)
	ctx := owned(t, s, "cert-roles", "olga")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "requester"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"}, Verbs: []string{"create", "get", "update"}}}}
	olga := client(bearer(s, "olga-token"))
	if _, err := olga.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind(ctx, t, s, "requester", "mallory")
	mallory := client(bearer(s, "mallory-token"))
	csr, _ := signingRequest(t, "mine", pkix.Name{CommonName: "olga"})
	eventually(t, "mallory requests", func() error {
		made, err := mallory.CertificatesV1().CertificateSigningRequests().Create(ctx, csr, metav1.CreateOptions{})
		if err == nil {
			csr = made
		}
		return err
	})
	if err := approve(ctx, mallory, csr.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("approving without the right to: %v, want Forbidden", err)
	}
	signed := csr.DeepCopy()
	signed.Status.Certificate = s.Config.CertData
	if _, err := mallory.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, signed, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("signing without the right to: %v, want Forbidden", err)
	}
	// An owner rules her logical cluster, and that is all that a certificate of it gives.
	config := certified(ctx, t, s, olga, "otto")
	bind(ctx, t, s, "view", "otto")
	eventually(t, "otto reads", func() error {
		l, err := client(config).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(l.Items) == 0 {
			err = errors.New("nothing")
		}
		return err
	})
}
