package down

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

// readCarried finds what a Manifest is on the physical cluster, and what is there in its place.
func (p *pass) readCarried(ctx context.Context) error {
	if !p.kind.Carries || p.in.Copy != nil && p.in.Copy.Status.State == placementv1alpha1.CopyRemoved {
		return nil
	}
	named := p.named()
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
		return p.kindGone(ctx, named)
	case errors.Is(err, view.ErrTooManyKinds):
		p.in.Failure = &syncer.Failure{Reason: fleetv1alpha1.ReasonTooManyKinds,
			Message: fmt.Sprintf("Manifests carry %d other kinds there, and each is watched; there may be no more", fleetv1alpha1.MaxManifestKinds)}
		return nil
	case err != nil:
		refusal, refused := syncer.RefusalOf(err, p.kind)
		if !refused {
			return err
		}
		refusal.Reason = fleetv1alpha1.ReasonKindsNotKnown
		p.in.Failure = &refusal
		return nil
	}
	named.Resource = kind.Resource.Resource
	if object := syncer.CarriedBy(p.in.Logical); object != nil {
		carried, failure := syncer.Carried(object, kind.Resource.Resource, kind.Namespaced)
		if failure != nil {
			if !syncer.Leaves(p.in) { // where the kind has another scope by now, nothing of the name can be
				p.in.Failure = failure
			}
			return nil
		}
		named = carried
	}
	p.in.Carried = &named
	obj, ok := p.View.CarriedBelow(p.key, kind.Resource, p.physicalRequest())
	if p.in.Physical = obj; !ok {
		p.in.Physical, p.in.Unseen = nil, true
	}
	return nil
}

// named is how the object is named that a Manifest carries, of which the resource may not be known.
func (p *pass) named() placementv1alpha1.CarriedObject {
	if object := syncer.CarriedBy(p.in.Logical); object != nil {
		gvk := object.GroupVersionKind()
		return placementv1alpha1.CarriedObject{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	}
	if p.in.Copy != nil {
		return p.in.Copy.Status.Carried
	}
	return placementv1alpha1.CarriedObject{}
}

// kindGone takes the failure back if there is no object of a kind because nobody defines it any more: a
// physical cluster that does not serve it for a moment says less.
func (p *pass) kindGone(ctx context.Context, named placementv1alpha1.CarriedObject) error {
	recorded := placementv1alpha1.CarriedObject{}
	if p.in.Copy != nil {
		recorded = p.in.Copy.Status.Carried
	}
	if recorded.Resource == "" {
		return nil // nothing was ever made
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	for gvr, name := range map[schema.GroupVersionResource]string{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: recorded.Resource + "." + named.Group,
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}:             named.Version + "." + named.Group,
	} {
		_, err := p.Down.Metadata.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			return nil
		case syncer.IsGone(err, gvr.GroupResource(), name):
		case syncer.IsSilence(err):
			return fmt.Errorf("looking for the definition of %s: %w", recorded.Resource, err)
		default:
			return nil // it does not say
		}
	}
	if syncer.Leaves(p.in) {
		p.in.Failure = nil
	}
	return nil
}

// carriedGone takes note that what a Manifest carries is not there, if that is what the answer says.
func (p *pass) carriedGone(err error) error {
	c := p.in.Carried
	gvr := carriedResource(c)
	if !syncer.IsGone(err, gvr.GroupResource(), c.Name) && !syncer.IsNamespaceGone(err) {
		p.View.DoubtKind(schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind})
		return fmt.Errorf("looking for what is carried: %w", errors.Join(errAgain, err))
	}
	p.View.CarriedGone(gvr, p.physicalRequest())
	return nil
}

// notThere says what is wrong where an apply found no place for the object: no namespace, or no such kind.
func (p *pass) notThere(err error) error {
	c := p.in.Carried
	if syncer.IsNamespaceGone(err) {
		p.in.Failure = &syncer.Failure{Reason: fleetv1alpha1.ReasonNamespaceMissing, Message: "the physical cluster has no namespace " + c.Namespace}
		return nil
	}
	p.View.DoubtKind(schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind})
	return errAgain
}

func carriedResource(c *placementv1alpha1.CarriedObject) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.Group, Version: c.Version, Resource: c.Resource}
}
