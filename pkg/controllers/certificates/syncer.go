package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/registration"
)

// unsettled says that nobody has denied, failed or signed a request.
func unsettled(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && !has(csr, certificatesv1.CertificateDenied) && !has(csr, certificatesv1.CertificateFailed)
}

// verdict is what becomes of an unsettled request for the certificate of a syncer.
type verdict struct {
	// sign is what to sign, for the PhysicalCluster of this name and UID; approve that it is
	// approved first; neither is to wait for an admin.
	sign            *x509.Certificate
	physicalCluster string
	uid             types.UID
	approve         bool
}

// judge decides about an unsettled request of a syncer; pc is its physical cluster, nil if there
// is none. An error says why it can never be signed.
//
//	request  physical cluster                            approved  renews  then
//	bad      any                                         any       any     error
//	good     none, forgotten, going, Push                any       any     error
//	good     another UID than that of who asks, or none  any       yes     error
//	good     made after the request                      any       no      error
//	good     registered as Pull                          no        no      wait for an admin
//	good     registered as Pull                          no        yes     approve
//	good     registered as Pull                          yes       any     sign
//
// Which UID who asks has the server has found out, from a certificate, when the request was made.
// An account that registers has none: what it asked for is not approved for a successor.
func judge(csr *certificatesv1.CertificateSigningRequest, find func(name string) (*fleetv1alpha1.PhysicalCluster, error), now time.Time) (v verdict, wrong, err error) {
	name, renews, request, wrong := registration.Check(csr)
	if wrong != nil {
		return v, wrong, nil
	}
	pc, err := find(name)
	switch {
	case err != nil:
		return v, nil, err
	case pc == nil, pc.Spec.Forget, pc.DeletionTimestamp != nil:
		return v, fmt.Errorf("no physical cluster %s is registered", name), nil
	case pc.Spec.Connection.Type == fleetv1alpha1.ConnectionPush:
		return v, fmt.Errorf("the server connects to the physical cluster %s itself: its connection is not of type Pull", name), nil
	case renews && (pc.UID == "" || registration.UIDOf(csr.Spec.Extra) != pc.UID):
		return v, fmt.Errorf("who asks is the syncer of another PhysicalCluster %s, which is not registered any more", name), nil
	case !renews && pc.CreationTimestamp.After(csr.CreationTimestamp.Time):
		return v, fmt.Errorf("the physical cluster %s was registered after this was asked for: register it again", name), nil
	case !has(csr, certificatesv1.CertificateApproved):
		return verdict{approve: renews}, nil, nil
	}
	return verdict{physicalCluster: name, uid: pc.UID, sign: &x509.Certificate{
		PublicKey: request.PublicKey, PublicKeyAlgorithm: request.PublicKeyAlgorithm,
		NotBefore: now.Add(-registration.Backdate), NotAfter: now.Add(min(lifetime(csr.Spec.ExpirationSeconds), registration.MaxLifetime)),
	}}, nil, nil
}

// register does what judge says.
func (c *Controller) register(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, now time.Time) error {
	v, wrong, err := judge(csr, func(name string) (*fleetv1alpha1.PhysicalCluster, error) {
		pc, err := c.Client.FleetV1alpha1().PhysicalClusters().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return pc, err
	}, now)
	switch {
	case err != nil:
		return fmt.Errorf("reading the physical cluster of a request: %w", err)
	case wrong != nil:
		return c.fail(ctx, csr, wrong)
	case v.approve:
		csr = csr.DeepCopy()
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: "Renewal", Message: "the syncer of the physical cluster renews its certificate", LastUpdateTime: metav1.Time{Time: now},
		})
		_, err := c.Kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("approving the renewal of a certificate: %w", err)
		}
		return nil
	case v.sign == nil:
		return nil
	}
	if c.SignSyncer == nil {
		return errors.New("nobody signs certificates of syncers")
	}
	csr = csr.DeepCopy()
	if csr.Status.Certificate, err = c.SignSyncer(v.physicalCluster, v.uid, v.sign); err != nil {
		return err
	}
	return c.write(ctx, csr)
}
