package join

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// askInterval is how often a request is looked at that waits, retryInterval when
	// what failed is tried again.
	askInterval   = 2 * time.Second
	retryInterval = 30 * time.Second
	// probeTimeout is how long the server takes to say whether it accepts a certificate.
	probeTimeout = 10 * time.Second
)

// Joiner gets identities for the syncer of one physical cluster.
type Joiner struct {
	PhysicalCluster string
	// Server is the way to the control plane without a scope, with the token that
	// registers.
	Server *rest.Config
	// Physical acts on the physical cluster, where the Secret is.
	Physical kubernetes.Interface
	// Interval replaces askInterval and retryInterval: for tests.
	Interval time.Duration
}

// Identity is a certificate with its key.
type Identity struct {
	// Config is the way to the control plane with it, without a scope.
	Config *rest.Config
	// From and End are when it is good.
	From, End time.Time
	// uid is that of the PhysicalCluster that it is for; empty in one from before they had it.
	uid types.UID

	key, certificate []byte
}

// renewAt is when an identity is renewed: when two thirds of its life are over.
func (i *Identity) renewAt() time.Time { return i.From.Add(i.End.Sub(i.From) * 2 / 3) }

// Identity returns the one that the physical cluster keeps, or asks for the first one, for as
// long as that takes.
//
//	is kept                                       then
//	nothing, or a key                             ask with it
//	what has ended                                ask with its key
//	what the server accepts, or says nothing of   use it
//	what it does not accept, but the token        ask with a new key
func (j *Joiner) Identity(ctx context.Context) (*Identity, error) {
	kept, err := j.read(ctx)
	if err != nil {
		return nil, err
	}
	if kept.certificate != nil {
		identity, err := j.identity(kept.key, kept.certificate)
		if err == nil && time.Now().Before(identity.End) {
			if !j.superseded(ctx, identity) {
				klog.FromContext(ctx).Info("The syncer has a certificate", "physicalCluster", j.PhysicalCluster, "ends", identity.End)
				return identity, nil
			}
			if kept, err = j.replace(ctx, kept); err != nil {
				return nil, err
			}
		}
	}
	key, err := parseKey(kept.key)
	if err != nil {
		return nil, err
	}
	csr, err := registration.New(j.PhysicalCluster, key)
	if err != nil {
		return nil, err
	}
	return j.obtain(ctx, kept.key, j.Server, csr)
}

// superseded says that the server does not accept an identity any more, and does accept the token that
// registers: the PhysicalCluster of before was unregistered, and this physical cluster is registered
// again. That the server accepts neither, or says nothing, decides nothing; nor does a page of who is before it.
func (j *Joiner) superseded(ctx context.Context, identity *Identity) bool {
	ask := func(with *rest.Config, name string) error {
		kube, err := kubernetes.NewForConfig(scope.ScopedConfig(with))
		if err == nil {
			ctx, cancel := context.WithTimeout(scope.WithCluster(ctx, scope.Root), probeTimeout)
			defer cancel()
			_, err = kube.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		}
		return err
	}
	if !apierrors.IsUnauthorized(ask(identity.Config, registration.RenewalName(j.PhysicalCluster, identity.uid))) {
		return false
	}
	err := ask(j.Server, registration.Name(j.PhysicalCluster))
	if err != nil && (!apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)) {
		return false
	}
	klog.FromContext(ctx).Info("The certificate of the syncer is not accepted any more, asking for another one", "physicalCluster", j.PhysicalCluster)
	return true
}

// Renewed returns the successor of an identity, when it is time for it and it has been got.
// The error is that of ctx.
func (j *Joiner) Renewed(ctx context.Context, old *Identity) (*Identity, error) {
	if err := sleep(ctx, time.Until(old.renewAt())); err != nil {
		return nil, err
	}
	for {
		next, err := j.renew(ctx, old)
		if err == nil || ctx.Err() != nil {
			return next, ctx.Err()
		}
		klog.FromContext(ctx).Error(err, "Renewing the certificate of the syncer failed, will try again", "ends", old.End)
		if err := sleep(ctx, j.interval(retryInterval)); err != nil {
			return nil, err
		}
	}
}

func (j *Joiner) renew(ctx context.Context, old *Identity) (*Identity, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	// A request that is not answered gives way to another try.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	signer, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	csr, err := registration.Renew(j.PhysicalCluster, old.uid, signer)
	if err != nil {
		return nil, err
	}
	return j.obtain(ctx, key, old.Config, csr)
}

// obtain posts a request, which is with key, waits for its certificate, and keeps both.
func (j *Joiner) obtain(ctx context.Context, keyPEM []byte, with *rest.Config, csr *certificatesv1.CertificateSigningRequest) (*Identity, error) {
	request, err := registration.Parse(csr.Spec.Request)
	if err != nil {
		return nil, err
	}
	fingerprint, err := registration.Fingerprint(request.PublicKey)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(scope.ScopedConfig(with))
	if err != nil {
		return nil, fmt.Errorf("making a client of the Atoll server: %w", err)
	}
	in := scope.WithCluster(ctx, scope.Root)
	logger := klog.FromContext(ctx)
	said := ""
	for {
		certificate, waits, err := j.ask(in, kube, csr, fingerprint)
		switch {
		case certificate != nil:
			identity, err := j.identity(keyPEM, certificate)
			if err == nil {
				err = j.keep(ctx, keyPEM, certificate)
			}
			if err != nil {
				return nil, err
			}
			logger.Info("The syncer has a certificate", "physicalCluster", j.PhysicalCluster, "ends", identity.End)
			return identity, nil
		case err != nil && isFinal(err):
			return nil, err
		case err != nil:
			waits = err.Error()
		}
		if waits != said {
			logger.Info("Waiting for the certificate of the syncer", "physicalCluster", j.PhysicalCluster, "fingerprint", fingerprint, "reason", waits)
			said = waits
		}
		if err := sleep(ctx, j.interval(askInterval)); err != nil {
			return nil, err
		}
	}
}

// finalError says that waiting does not help.
type finalError struct{ error }

func isFinal(err error) bool {
	var final finalError
	return errors.As(err, &final)
}

// ask posts the request if it is not there, and says how it is: its certificate, or what is
// waited for.
//
//	under its name there is       then
//	nothing                       it is posted
//	a request with another key    wait until that is gone: an admin removes it, or denies it
//	ours, denied or failed        the error, which is final
//	ours, signed                  the certificate
//	ours, else                    wait for an admin
func (j *Joiner) ask(ctx context.Context, kube kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest, fingerprint string) (certificate []byte, waits string, err error) {
	requests := kube.CertificatesV1().CertificateSigningRequests()
	there, err := requests.Get(ctx, csr.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		there, err = requests.Create(ctx, csr, metav1.CreateOptions{})
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return nil, "", finalError{fmt.Errorf("the Atoll server does not accept the credential that registers %s any more: kubectl atoll register %s --agent makes another one", j.PhysicalCluster, j.PhysicalCluster)}
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return nil, "", finalError{fmt.Errorf("the Atoll server refuses the request: %w", err)}
	case err != nil:
		return nil, "", fmt.Errorf("requesting a certificate: %w", err)
	}
	asked, err := registration.Parse(there.Spec.Request)
	if err != nil {
		return nil, "", err
	}
	if other, err := registration.Fingerprint(asked.PublicKey); err != nil || other != fingerprint {
		return nil, fmt.Sprintf("another request is called %s, with the key %s: if nobody knows whose that is, kubectl certificate deny %s, and register again; else delete it", csr.Name, other, csr.Name), err
	}
	for _, c := range there.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return nil, "", finalError{fmt.Errorf("the request for a certificate is %s: %s", c.Type, c.Message)}
		}
	}
	if len(there.Status.Certificate) > 0 {
		return there.Status.Certificate, "", nil
	}
	return nil, fmt.Sprintf("an admin approves it with: kubectl atoll approve %s", j.PhysicalCluster), nil
}

// identity reads a key with its certificate.
func (j *Joiner) identity(key, certificate []byte) (*Identity, error) {
	certificates, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the syncer: %w", err)
	}
	private, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	if public, ok := certificates[0].PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(private.Public()) {
		return nil, errors.New("the certificate is for another key")
	}
	of, err := registration.IdentityOf(certificates[0], j.PhysicalCluster)
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(j.Server)
	config.CertData, config.KeyData = certificate, key
	return &Identity{Config: config, From: certificates[0].NotBefore, End: certificates[0].NotAfter, uid: of.UID, key: key, certificate: certificate}, nil
}

func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return data, nil
}

func parseKey(data []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, errors.New("the key of the syncer cannot be read") // nothing of it goes into logs
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of the syncer cannot sign")
	}
	return signer, nil
}

func (j *Joiner) interval(otherwise time.Duration) time.Duration {
	if j.Interval > 0 {
		return j.Interval
	}
	return otherwise
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
