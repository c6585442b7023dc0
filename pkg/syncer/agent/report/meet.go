package report

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// identify asks who the physical cluster is, and what that means.
func (r *Reporter) identify(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (syncer.Identification, *syncer.Failure) {
	r.mu.Lock()
	admitted := r.world.Identity
	r.mu.Unlock()
	if admitted == "" {
		r.gate.Fresh() // it may be another one on the next connection
	}
	contact := syncer.Contact{
		Recorded: pc.Status.Identity, Confirmed: pc.Spec.Identity, ConfirmedEmptied: pc.Spec.Emptied,
		Now: metav1.NewTime(time.Now()),
	}
	uid, _, err := r.gate.Ask(ctx)
	if err != nil {
		return syncer.Identify(contact), syncer.IdentityFailure(err)
	}
	contact.Seen = uid
	other, lost := r.gate.Noticed()
	if other != "" {
		contact.Seen = other
	}
	if lost || !pc.Status.Identity.Populated || pc.Status.Identity.Emptied != nil {
		if contact.Namespaces, err = r.gate.Namespaces(ctx, pc.Status.ControlPlane); err != nil {
			contact.Seen = ""
			return syncer.Identify(contact), syncer.ContactFailure(err)
		}
		contact.Expected = r.gate.Count()
	}
	who := syncer.Identify(contact)
	if who.Verdict == syncer.Meant {
		return who, nil
	}
	return who, &syncer.Failure{Reason: string(who.Verdict), Message: who.Message}
}

// admit opens the gate for the cluster that is meant, and closes it before any other;
// silence leaves it as it is. It returns for whom it is open.
func (r *Reporter) admit(pc *fleetv1alpha1.PhysicalCluster, who syncer.Identification) types.UID {
	r.mu.Lock()
	identity := r.world.Identity
	r.mu.Unlock()
	switch {
	case who.Verdict == syncer.Silent:
		return identity
	case who.Verdict != syncer.Meant:
		identity = ""
	case identity == who.Record.UID, who.Record.Emptied == nil && pc.Status.Identity.Emptied == nil:
		identity = who.Record.UID
	default:
		identity = "" // until it is recorded that a confirmation was used up
	}
	r.gate.Admit(identity, pc.Status.ControlPlane, who.Record.Populated)
	return identity
}

// Meet looks, before a session writes anything, whether the namespaces are there that
// should be: expected counts them.
func (r *Reporter) Meet(ctx context.Context, expected func() int) error {
	r.gate.Expect(expected)
	if r.gate.Expects() == 0 {
		return nil
	}
	there, err := r.gate.Namespaces(ctx, r.gate.ControlPlane())
	if err != nil {
		return fmt.Errorf("meeting the physical cluster: %w", err)
	}
	if there == syncer.PresenceSome {
		return nil
	}
	klog.FromContext(ctx).Info("The physical cluster has none of the namespaces that were made on it")
	r.gate.Notice("", true)
	known, err := r.once(scope.WithCluster(ctx, scope.Root))
	if err != nil {
		return fmt.Errorf("reporting that the physical cluster was emptied: %w", err)
	}
	// Silence leaves the gate as it is, but after what was seen it permits nothing.
	if !known || r.gate.Admitted() == "" {
		return connection.ErrLost
	}
	return nil
}
