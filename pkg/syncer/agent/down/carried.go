package down

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

// readCarried finds what a Manifest is on the physical cluster, and what is there in its place.
func (p *pass) readCarried(ctx context.Context) error {
	if !p.kind.Carries || p.in.Copy != nil && p.in.Copy.Status.State == placementv1alpha1.CopyRemoved {
		return nil
	}
	named := syncer.CarriedName(p.in)
	if named == (placementv1alpha1.CarriedObject{}) {
		if p.in.Logical == nil && p.in.Copy == nil {
			p.in.Physical = view.First(p.View.CarriedMarked(p.key))
		}
		return nil
	}
	gvk := schema.GroupVersionKind{Group: named.Group, Version: named.Version, Kind: named.Kind}
	kind, err := p.View.Carry(ctx, gvk)
	switch {
	case errors.Is(err, view.ErrNotServed):
		p.in.Failure = syncer.CarriedNotServed(gvk)
		if p.in.Copy != nil { // an own write says nothing of a kind that comes back
			p.View.WrittenBelow.Forget(p.key, p.in.Copy.Status.PhysicalUID)
		}
		return p.proveKindGone(ctx)
	case errors.Is(err, view.ErrTooManyKinds):
		p.in.Failure = syncer.CarriedTooManyKinds()
		return nil
	case err != nil:
		if p.in.Failure = syncer.CarriedNotKnown(err, p.kind); p.in.Failure == nil {
			return err
		}
		return nil
	}
	if p.in = syncer.Locate(p.in, kind.Resource.Resource, kind.Namespaced); p.in.Carried == nil {
		return nil
	}
	obj, ok := p.View.CarriedBelow(p.key, kind.Resource, p.physicalRequest())
	if p.in.Physical = obj; !ok {
		p.in.Physical, p.in.Unseen = nil, true
	}
	return nil
}

// proveKindGone asks whether nothing of a kind can be there that is not served, for who is to leave.
func (p *pass) proveKindGone(ctx context.Context) error {
	if !syncer.Leaves(p.in) || p.in.Copy == nil || p.in.Copy.Status.Carried.Resource == "" {
		return nil // nothing was ever made, or nothing is acknowledged
	}
	recorded := p.in.Copy.Status.Carried
	var err error
	p.in.NothingCarried, err = p.Down.KindGone(ctx, schema.GroupResource{Group: recorded.Group, Resource: recorded.Resource})
	return err
}

// carriedGone takes note that what a Manifest carries is not there, if that is what the answer says.
func (p *pass) carriedGone(err error) error {
	if syncer.NotFoundOf(err, *p.in.Carried) == syncer.NotFoundUnclear {
		return errors.Join(p.doubtKind(), fmt.Errorf("looking for what is carried: %w", err))
	}
	p.View.CarriedGone(carriedResource(p.in.Carried), p.physicalRequest())
	return nil
}

// notThere says what is wrong where an apply found no place for the object: no namespace, or no such kind.
func (p *pass) notThere(err error) error {
	if syncer.NotFoundOf(err, *p.in.Carried) == syncer.NotFoundNamespace {
		p.in.Failure = syncer.CarriedNoNamespace(*p.in.Carried)
		return nil
	}
	return p.doubtKind()
}

// doubtKind has the physical cluster asked anew how it serves the kind.
func (p *pass) doubtKind() error {
	c := p.in.Carried
	p.View.DoubtKind(schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind})
	return errAgain
}

func carriedResource(c *placementv1alpha1.CarriedObject) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.Group, Version: c.Version, Resource: c.Resource}
}
