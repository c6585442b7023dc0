package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/reserve"
)

const (
	// decideTimeout is how long others wait for who has reserved for the same unit.
	decideTimeout = time.Second
	// decideInterval is how often they look.
	decideInterval = 10 * time.Millisecond
	// withdrawTimeout bounds the write that takes a reservation back.
	withdrawTimeout = 5 * time.Second
	// mostBetween is the most between a reservation and the decision upon it. Others count the
	// reservation for longer.
	mostBetween = reserve.For / 4
)

// tooLate says that others reserved before what a unit was decided to take, or that it is not
// known whether they did. Its reservation is withdrawn.
type tooLate struct {
	stored   *placementv1alpha1.Placement
	decision placement.Decision
	rejected []placement.Rejection
	// deaf says that this server does not hear what others reserve.
	deaf bool
}

func (t tooLate) Error() string {
	messages := make([]string, 0, len(t.rejected))
	for _, r := range t.rejected {
		messages = append(messages, r.PhysicalCluster+": "+r.Message())
	}
	return fmt.Sprintf("what is left was taken: %v", messages)
}

// without is the decision without what others have taken: none.
func (t tooLate) without() placement.Decision {
	d := t.decision
	chosen := d.PhysicalClusters
	d.PhysicalClusters, d.Division, d.Overrides, d.Rollout = nil, nil, nil, nil
	d.Rejected = append(slices.DeleteFunc(slices.Clone(d.Rejected), func(r placement.Rejection) bool { return slices.Contains(chosen, r.PhysicalCluster) }), t.rejected...)
	slices.SortFunc(d.Rejected, func(a, b placement.Rejection) int { return cmp.Compare(a.PhysicalCluster, b.PhysicalCluster) })
	if d.Scheduler != "" && len(t.rejected) > 0 {
		d.Unmet = t.rejected[0].PhysicalCluster + ": " + t.rejected[0].Message()
	}
	return d
}

// id is that of the unit of a question.
func (q question) id() reserve.Unit { return reserve.Unit{Namespace: q.namespace.UID, Name: q.unit} }

// unreserved reads the placement of the unit, once nobody else is about to decide it: who has
// reserved for it does so within moments, or has died.
func (d *decider) unreserved(ctx context.Context, q question) (stored *placementv1alpha1.Placement, err error) {
	waited := wait.PollUntilContextTimeout(ctx, decideInterval, decideTimeout, true, func(context.Context) (bool, error) {
		stored, err = d.stored(ctx, q)
		return err != nil || !d.isBeingDecided(q, stored), nil
	})
	if err == nil && waited != nil {
		err = ctx.Err()
	}
	return stored, err
}

func (d *decider) isBeingDecided(q question, p *placementv1alpha1.Placement) bool {
	r := p.Spec.Reservation
	if q.dryRun || r == nil || p.Spec.Decision != nil || p.Spec.Bound != nil || q.reserved != nil && q.reserved.Equal(&r.At) {
		return false
	}
	return d.assumptions.clock.Now().Sub(r.At.Time).Abs() < decideTimeout
}

// reserve has a unit take what it is decided to take, so that no two servers give the same to
// two units.
//
//	on what it is decided for    and before its reservation       then
//	nothing bounds what it takes                                  it is stored with the decision
//	something does               there is room                    it is stored, the decision follows
//	something does               others have taken the room       it is withdrawn: tooLate
//	something does               nobody knows what was reserved   it is withdrawn: tooLate
//
// The placement that is returned has the reservation.
func (d *decider) reserve(ctx context.Context, q question, p *placementv1alpha1.Placement, s placement.Snapshot, u placement.Unit, decision placement.Decision, r *placementv1alpha1.Reservation) (*placementv1alpha1.Placement, error) {
	before := p
	u.Requests = decision.Requests
	p = p.DeepCopy()
	p.Spec.Reservation = r
	takes := func(c placement.PhysicalCluster) bool { return slices.Contains(r.PhysicalClusters, c.Name) }
	if !slices.ContainsFunc(s.PhysicalClusters, func(c placement.PhysicalCluster) bool { return takes(c) && placement.Limited(c, u) }) {
		return p, nil
	}
	p, err := d.write(ctx, q, p)
	if err != nil {
		return nil, fmt.Errorf("storing a reservation: %w", err)
	}
	if q.reserved != nil {
		*q.reserved = r.At
	}
	late := tooLate{decision: decision}
	if !d.assumptions.hear(ctx, p.ResourceVersion) || d.assumptions.clock.Now().Sub(r.At.Time) > mostBetween {
		late.deaf = true
		for _, name := range r.PhysicalClusters {
			late.rejected = append(late.rejected, placement.NewRejection(name, placement.ReasonUnheard, "this server does not hear at the moment what others reserve there"))
		}
		return nil, d.withdraw(ctx, q, before, p, late)
	}
	d.assumptions.before(s, q.id(), p.ResourceVersion)
	for _, c := range s.PhysicalClusters {
		if !takes(c) {
			continue
		}
		if no := placement.Exceeds(c, u); no != nil {
			late.rejected = append(late.rejected, *no)
		}
	}
	if len(late.rejected) > 0 {
		return nil, d.withdraw(ctx, q, before, p, late)
	}
	return p, nil
}

// withdraw takes a reservation back, and returns what is late with the placement as it was
// before; or that somebody else has written since.
func (d *decider) withdraw(ctx context.Context, q question, before, p *placementv1alpha1.Placement, late tooLate) error {
	// Also if who asked waits no longer: others would count it for a minute.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	if late.stored = before; before.UID == "" {
		client := d.client.PlacementV1alpha1().Placements(q.namespace.Name)
		err := client.Delete(at(ctx, q.cluster), p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("withdrawing a reservation: %w", err)
		}
		return late
	}
	p = p.DeepCopy()
	p.Spec.Reservation = nil
	p, err := d.write(ctx, q, p)
	if err != nil {
		return fmt.Errorf("withdrawing a reservation: %w", err)
	}
	late.stored = p
	return late
}

// write stores a placement, which is new if it has no UID.
func (d *decider) write(ctx context.Context, q question, p *placementv1alpha1.Placement) (*placementv1alpha1.Placement, error) {
	client := d.client.PlacementV1alpha1().Placements(q.namespace.Name)
	if p.Spec.Reservation != nil { // others do not count it for ever
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, mostBetween)
		defer cancel()
	}
	if p.UID == "" {
		return client.Create(at(ctx, q.cluster), p, metav1.CreateOptions{})
	}
	return client.Update(at(ctx, q.cluster), p, metav1.UpdateOptions{})
}

// isLate says that others were first; final that to decide again would be of no use.
func isLate(err error) (late tooLate, is, final bool) {
	is = errors.As(err, &late)
	return late, is, is && late.deaf
}

// refusedLate is what a binding is refused with whose room others have taken.
func refusedLate(b *placementv1alpha1.PlacementBinding, err error) error {
	if late, is, _ := isLate(err); is {
		return apierrors.NewForbidden(placementsResource, b.Name, errors.New(late.without().Message()))
	}
	return err
}
