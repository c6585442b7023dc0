package down

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// writeCopy creates or updates the record of the object.
func (p *pass) writeCopy(ctx context.Context, c *placementv1alpha1.Copy) error {
	before := p.in.Copy
	// Nobody applies a Copy: without this the server would work out with each write
	// which of its fields are whose, and keep that.
	c.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	if c.Status.State == placementv1alpha1.CopyRemoved {
		if err := p.Confirm(ctx); err != nil {
			return fmt.Errorf("%w, whose copy is gone: %w", errUnconfirmed, err)
		}
	}
	written, err := p.sendCopy(ctx, c)
	if err != nil {
		return err
	}
	p.View.WrittenCopies.Put(p.key, written)
	p.in.Copy, p.in.Reverted, p.in.Reported = written, 0, time.Now()
	p.memory.change(p.key, func(r *remembered) { r.reported, r.counting = p.in.Reported, time.Time{} })
	if event := syncer.CopyEvent(before, written, metav1.Now()); event != nil {
		connection.WriteEvent(ctx, p.Up, event)
	}
	return nil
}

// sendCopy writes a Copy; what proves that it rests on old knowledge ends the pass.
func (p *pass) sendCopy(ctx context.Context, c *placementv1alpha1.Copy) (written *placementv1alpha1.Copy, err error) {
	client := p.Up.Atoll.PlacementV1alpha1().Copies(c.Namespace)
	before := p.in.Copy
	if before == nil {
		written, err = client.Create(ctx, c, metav1.CreateOptions{})
	} else {
		written, err = client.Update(ctx, c, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		if now, err := client.Get(ctx, c.Name, metav1.GetOptions{}); err == nil {
			p.View.WrittenCopies.Put(p.key, now)
		}
		return nil, errAgain
	case before != nil && syncer.IsGone(err, placementv1alpha1.Resource("copies"), before.Name):
		p.View.WrittenCopies.Gone(p.key, before.UID)
		return nil, errAgain
	case syncer.IsNamespaceGone(err):
		p.View.DoubtNamespaces()
		return nil, errAgain // the Namespace went since we looked: the watch is about to say so
	case err != nil:
		if apierrors.IsForbidden(err) {
			p.Forbidden() // we may have been given up
		}
		return nil, fmt.Errorf("writing the copy: %w", err)
	}
	return written, nil
}
