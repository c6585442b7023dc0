package podadmission

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

const (
	// checkInterval is how often the configuration is compared with what is wanted.
	checkInterval = 10 * time.Second
	// certificateAge is how old a certificate becomes; it is good for a year.
	certificateAge = 180 * 24 * time.Hour
	// maxConnections bounds those of everybody who reaches the address.
	maxConnections = 256
)

// Config is what a Keeper works with.
type Config struct {
	View *view.View
	Up   connection.ControlPlane
	Down connection.Physical
	// Address is where the webhook is served; empty if it is not.
	Address string
	// Wanted is what the PhysicalCluster says, nil if nothing, and a channel that is
	// closed when that may be something else.
	Wanted func() (*fleetv1alpha1.PodAdmission, <-chan struct{})
	// Permits is what the physical cluster permits now.
	Permits func() boundary.Permits
	// Report hears how it is: nil is that pods are admitted.
	Report func(problem error)
}

// Keeper serves the webhook and keeps its configuration on the physical cluster.
type Keeper struct {
	Config
	path string
	host string
	made time.Time
	// removed says that there is no configuration, or none of ours.
	removed         bool
	ca              []byte
	certificate     atomic.Pointer[tls.Certificate]
	whenUnavailable atomic.Value // fleetv1alpha1.UnavailablePolicy
	places          *places
}

// New makes a Keeper.
func New(c Config) *Keeper {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // it never fails
	k := &Keeper{Config: c, path: "/pods/" + hex.EncodeToString(secret), places: newPlaces()}
	k.whenUnavailable.Store(fleetv1alpha1.UnavailableRefuse)
	return k
}

// Run works until ctx is done. Its configuration stays: pods wait for who comes next, or are
// made, as the PhysicalCluster says.
func (k *Keeper) Run(ctx context.Context) {
	stop := func() {}
	serving := false
	defer func() { stop() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var said string
	for {
		wanted, changed := k.Wanted()
		problem := k.once(ctx, wanted, func() error {
			if serving {
				return nil
			}
			var err error
			if stop, err = k.serve(ctx); err == nil {
				serving = true
			}
			return err
		})
		if ctx.Err() != nil {
			return
		}
		k.Report(problem)
		if message := fmt.Sprint(problem); problem != nil && message != said && wanted != nil {
			klog.FromContext(ctx).Info("Pods are not admitted by their logical clusters", "err", message)
			said = message
		}
		timer.Reset(checkInterval)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
	}
}

// once brings what there is to what is wanted: the listener before the configuration that
// leads to it.
func (k *Keeper) once(ctx context.Context, wanted *fleetv1alpha1.PodAdmission, serve func() error) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	switch {
	case wanted == nil:
		k.remove(ctx)
		return syncer.ErrAdmissionNotOffered
	case k.Address == "":
		k.remove(ctx)
		return syncer.ErrAdmissionNotServed
	}
	k.removed = false
	host, err := hostOf(wanted)
	if err != nil {
		return err
	}
	if host != k.host || time.Since(k.made) > certificateAge {
		pem, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			return fmt.Errorf("making a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(pem, key)
		if err != nil {
			return fmt.Errorf("reading a certificate: %w", err)
		}
		k.certificate.Store(&pair)
		k.host, k.made, k.ca = host, time.Now(), pem
	}
	k.whenUnavailable.Store(wanted.WhenUnavailable)
	if err := serve(); err != nil {
		return fmt.Errorf("listening at %s: %w", k.Address, err)
	}
	return k.configure(ctx, syncer.PodWebhook{ControlPlane: k.View.ControlPlane, Admission: *wanted, Path: k.path, CA: k.ca})
}

func hostOf(wanted *fleetv1alpha1.PodAdmission) (string, error) {
	if s := wanted.Service; s != nil {
		return s.Name + "." + s.Namespace + ".svc", nil
	}
	u, err := url.Parse(wanted.URL)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("spec.pods.admission.url is no URL of a server")
	}
	return u.Hostname(), nil
}

// serve listens until ctx is done, or stop is called.
func (k *Keeper) serve(ctx context.Context) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", k.Address)
	if err != nil {
		return func() {}, err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(k.serveHTTP), BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return k.certificate.Load(), nil
		}},
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: answerTimeout, WriteTimeout: 2 * answerTimeout, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan struct{})
	go func() { // ends with Close
		defer close(ended)
		_ = server.ServeTLS(netutil.LimitListener(listener, maxConnections), "", "")
	}()
	return func() { server.Close(); <-ended }, nil
}

// configure puts the configuration right.
func (k *Keeper) configure(ctx context.Context, w syncer.PodWebhook) error {
	client, wanted := k.Down.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), w.Configuration()
	there, err := client.Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	case err != nil:
	case equality.Semantic.DeepEqual(there.Webhooks, wanted.Webhooks) && equality.Semantic.DeepEqual(there.Labels, wanted.Labels):
		return nil
	default:
		changed := there.DeepCopy()
		changed.Webhooks, changed.Labels = wanted.Webhooks, wanted.Labels
		_, err = client.Update(ctx, changed, metav1.UpdateOptions{FieldManager: syncer.FieldManager})
	}
	if err != nil {
		return fmt.Errorf("writing the MutatingWebhookConfiguration %s: %w", wanted.Name, err)
	}
	return nil
}

// remove takes the configuration off, if it is there. A credential that may not look has made
// none.
func (k *Keeper) remove(ctx context.Context) {
	if k.removed {
		return
	}
	client, name := k.Down.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), syncer.PodWebhookName(k.View.ControlPlane)
	there, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		k.removed = apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
		return
	}
	err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(there.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Removing a webhook configuration that is not wanted any more failed, will try again")
	}
}
