package certificates

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Config is what the controller needs.
type Config struct {
	// Kube and Client act in the logical cluster of the context.
	Kube   kubernetes.Interface
	Client versioned.Interface
	// Sign signs a client certificate for the logical cluster of this name and UID.
	Sign func(logicalcluster.Name, types.UID, *x509.Certificate) ([]byte, error)
	// SignSyncer signs the certificate of the syncer of the PhysicalCluster of this name and UID.
	SignSyncer func(string, types.UID, *x509.Certificate) ([]byte, error)
	// Clock defaults to the real one, Workers to 2.
	Clock   clock.PassiveClock
	Workers int
}

// Controller signs and removes the requests of all logical clusters.
type Controller struct {
	Config
	requests *controller.Informer[*certificatesv1.CertificateSigningRequest]
	queue    *controller.Controller[controller.Request]
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Workers == 0 {
		config.Workers = 2
	}
	c := &Controller{Config: config, requests: controller.NewInformer("certificatesigningrequests", &certificatesv1.CertificateSigningRequest{},
		controller.Lists(config.Kube.CertificatesV1().CertificateSigningRequests()), controller.InformerOptions[*certificatesv1.CertificateSigningRequest]{})}
	c.queue = controller.New("certificates", config.Workers, c.reconcile)
	c.requests.Handle(func(_, csr *certificatesv1.CertificateSigningRequest) {
		if csr != nil {
			c.queue.Enqueue(controller.RequestFor(csr))
		}
	})
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	var informers sync.WaitGroup
	defer informers.Wait()
	informers.Go(func() { c.requests.Run(ctx) })
	if c.requests.WaitForSync(ctx) == nil {
		c.queue.Run(ctx)
	}
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	csr, ok := c.requests.Get(key)
	if !ok || csr.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	now := c.Clock.Now()
	at := obsolete(csr)
	if !at.IsZero() && !now.Before(at) {
		return controller.Result{}, c.remove(ctx, csr)
	}
	if key.Cluster == scope.Root && csr.Spec.SignerName == registration.Signer && unsettled(csr) {
		return controller.Result{RequeueAfter: at.Sub(now)}, c.register(ctx, csr, now)
	}
	template, problem := template(csr, now)
	switch {
	case problem != nil:
		return controller.Result{}, c.fail(ctx, csr, problem)
	case template != nil:
		return controller.Result{}, c.sign(ctx, key.Cluster, csr, template)
	case at.IsZero():
		return controller.Result{}, nil
	}
	return controller.Result{RequeueAfter: at.Sub(now)}, nil
}

func (c *Controller) remove(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	err := c.Kube.CertificatesV1().CertificateSigningRequests().Delete(ctx, csr.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &csr.UID, ResourceVersion: &csr.ResourceVersion}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing an old request: %w", err)
	}
	return nil
}

func (c *Controller) fail(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, problem error) error {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue,
		Reason: "SignerValidationFailure", Message: problem.Error(), LastUpdateTime: metav1.Time{Time: c.Clock.Now()},
	})
	return c.write(ctx, csr)
}

// sign reads the UID of the logical cluster from the server: a certificate for one
// that was here before must not be stored in its successor. The request was read
// before it; if it is of a predecessor, the write fails.
func (c *Controller) sign(ctx context.Context, name logicalcluster.Name, csr *certificatesv1.CertificateSigningRequest, template *x509.Certificate) error {
	cluster, err := c.Client.TenancyV1alpha1().LogicalClusters().Get(scope.With(ctx, scope.Scope{Cluster: scope.Root}), name.String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the request goes with it
	}
	if err != nil {
		return fmt.Errorf("reading the logical cluster: %w", err)
	}
	signed, err := c.Sign(name, cluster.UID, template)
	if err != nil {
		return err
	}
	csr = csr.DeepCopy()
	csr.Status.Certificate = signed
	return c.write(ctx, csr)
}

func (c *Controller) write(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	_, err := c.Kube.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, csr, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the answer to a request: %w", err)
	}
	return nil
}
