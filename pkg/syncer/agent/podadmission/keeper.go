package podadmission

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// proofInterval is how often the API server has to show that it asks.
	proofInterval = time.Minute
	// knownTimeout is how long an API server may take to know a configuration that was just written.
	knownTimeout, knownInterval = 5 * time.Second, 250 * time.Millisecond
)

// Config is what a Keeper works with.
type Config struct {
	View *view.View
	Up   connection.ControlPlane
	Down connection.Physical
	// Server serves the webhook; nil if nobody does.
	Server *Server
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
	// host is where path is offered, if it is; withdraw ends that.
	host     string
	ca       []byte
	withdraw func()
	// removed says that there is no configuration, or none of ours.
	removed         bool
	whenUnavailable atomic.Value // fleetv1alpha1.UnavailablePolicy
	places          *places
	// secret is in pods that are to show that the syncer is asked, and proofs how often it was asked
	// about them.
	secret string
	proofs atomic.Int64
	// proven is when it was last, written when the configuration was.
	proven, written time.Time
}

// New makes a Keeper.
func New(c Config) *Keeper {
	k := &Keeper{Config: c, path: "/pods/" + secret(), places: newPlaces(), secret: secret()}
	k.whenUnavailable.Store(fleetv1alpha1.UnavailableRefuse)
	return k
}

// secret is one that nobody guesses.
func secret() string {
	bits := make([]byte, 16)
	_, _ = rand.Read(bits) // it never fails
	return hex.EncodeToString(bits)
}

// Run works until ctx is done. Its configuration stays: pods wait for who comes next, or are
// made, as the PhysicalCluster says.
func (k *Keeper) Run(ctx context.Context) {
	defer k.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var said string
	for {
		wanted, changed := k.Wanted()
		problem := k.once(ctx, wanted)
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

// once brings what there is to what is wanted: somebody answers before the configuration
// that leads there.
func (k *Keeper) once(ctx context.Context, wanted *fleetv1alpha1.PodAdmission) error {
	answer := within(ctx, k.serveHTTP)
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	switch {
	case wanted == nil:
		k.end()
		k.remove(ctx)
		return syncer.ErrAdmissionNotOffered
	case k.Server == nil:
		k.remove(ctx)
		return syncer.ErrAdmissionNotServed
	}
	k.removed = false
	admission, err := k.Server.completed(*wanted)
	if err != nil {
		return err
	}
	host, err := hostOf(admission)
	if err != nil {
		return err
	}
	k.whenUnavailable.Store(wanted.WhenUnavailable)
	if host != k.host {
		k.end()
		k.proven = time.Time{}
		if k.ca, k.withdraw, err = k.Server.offer(k.path, host, answer); err != nil {
			return err
		}
		k.host = host
	}
	if err := k.configure(ctx, syncer.PodWebhook{ControlPlane: k.View.ControlPlane, Admission: admission, Path: k.path, CA: k.ca}); err != nil {
		return err
	}
	return k.prove(ctx)
}

// prove has the API server show that it asks. What somebody else may change, such as the network or the
// program behind the address, is seen within a minute.
func (k *Keeper) prove(ctx context.Context) error {
	if time.Since(k.proven) < proofInterval {
		return nil
	}
	for {
		before := k.proofs.Load()
		_, err := k.Down.Kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, syncer.ProofPod(k.View.ControlPlane, k.secret), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: syncer.FieldManager})
		problem := syncer.Proven(k.proofs.Load() > before, err)
		if problem == nil {
			k.proven = time.Now()
			return nil
		}
		if time.Since(k.written) > knownTimeout || ctx.Err() != nil {
			return problem
		}
		select {
		case <-ctx.Done():
		case <-time.After(knownInterval):
		}
	}
}

// within answers as long as ctx lasts, with what that says: as which syncer the control plane is
// asked, and who logs.
func within(ctx context.Context, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		during, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(req.Context(), cancel)()
		answer(w, req.WithContext(during))
	}
}

// end has nobody answer any more.
func (k *Keeper) end() {
	if k.withdraw != nil {
		k.withdraw()
	}
	k.host, k.withdraw = "", nil
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
	k.proven, k.written = time.Time{}, time.Now()
	return nil
}

var webhookConfigurations = admissionregistrationv1.Resource("mutatingwebhookconfigurations")

// remove takes the configuration off, if it is there. A credential that may not look has made
// none.
func (k *Keeper) remove(ctx context.Context) {
	if k.removed {
		return
	}
	client, name := k.Down.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), syncer.PodWebhookName(k.View.ControlPlane)
	there, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		k.removed = syncer.IsGone(err, webhookConfigurations, name) || apierrors.IsForbidden(err)
		return
	}
	err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(there.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Removing a webhook configuration that is not wanted any more failed, will try again")
	}
}
