package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// certificates are who one is: what a syncer asks for is signed without an admin.
var certificates = Attack{
	Name: "a syncer renews its own certificate, and gets none of anybody else",
	Fence: func(ctx context.Context, w *World) error {
		root := scope.WithCluster(ctx, scope.Root)
		requests := w.mallory.kube.CertificatesV1().CertificateSigningRequests()
		for what, change := range map[string]func(*certificatesv1.CertificateSigningRequest){
			"of another syncer, by a request of its own": func(csr *certificatesv1.CertificateSigningRequest) { csr.Name = registration.RenewalName(Mallory, "") },
			"of another syncer, by the request of that":  func(*certificatesv1.CertificateSigningRequest) {},
			"of a user of root": func(csr *certificatesv1.CertificateSigningRequest) {
				csr.Name, csr.Spec.SignerName = registration.RenewalName(Mallory, ""), certificatesv1.KubeAPIServerClientSignerName
			},
		} {
			csr, err := requestFor("east")
			if err != nil {
				return err
			}
			change(csr)
			if _, err := requests.Create(root, csr, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
				return fmt.Errorf("a certificate %s is asked for: %w", what, err)
			}
		}
		if _, err := requests.List(root, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the requests of others are listed: %w", err)
		}
		if _, err := requests.Get(root, registration.Name("east"), metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the request of another is read: %w", err)
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		root := scope.WithCluster(ctx, scope.Root)
		requests := w.mallory.kube.CertificatesV1().CertificateSigningRequests()
		csr, err := requestFor(Mallory)
		if err != nil {
			return err
		}
		if _, err := requests.Create(root, csr, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("its own certificate is not asked for: %w", err)
		}
		return eventually(ctx, "signing its own certificate", func() error {
			signed, err := requests.Get(root, csr.Name, metav1.GetOptions{})
			if err == nil && len(signed.Status.Certificate) == 0 {
				err = errors.New("it is not signed")
			}
			return err
		})
	},
}

// requestFor is one that renews, with a new key.
func requestFor(physicalCluster string) (*certificatesv1.CertificateSigningRequest, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return registration.Renew(physicalCluster, "", key)
}
