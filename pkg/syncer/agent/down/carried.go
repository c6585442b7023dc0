package down

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	p.in.NothingCarried, err = p.kindGone(ctx, schema.GroupResource{Group: recorded.Group, Resource: recorded.Resource})
	return err
}

// kindGone asks for the proof that nothing of a kind can be there, see syncer.KindGone.
func (p *pass) kindGone(ctx context.Context, kind schema.GroupResource) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	name := kind.String() // as definitions are named
	_, err = p.Down.Metadata.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	definition := syncer.AnswerOf(err, definitions.GroupResource(), name)
	listed, services := syncer.AnswerUnclear, []metav1.PartialObjectMetadata(nil)
	if definition == syncer.AnswerGone {
		services, err = p.apiServices(ctx)
		listed = syncer.AnswerOf(err, apiServices.GroupResource(), "")
	}
	gone, again := syncer.KindGone(kind.Group, definition, listed, services)
	if again {
		return false, fmt.Errorf("looking for who defines %s: %w", kind.Resource, err)
	}
	return gone, nil
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// maxServices bounds what is read of APIServices: a stock API server has about fifty.
const maxServices = 5000

// apiServices are those of the physical cluster.
func (p *pass) apiServices(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	for options := (metav1.ListOptions{Limit: 500}); ; {
		list, err := p.Down.Metadata.Resource(apiServices).List(ctx, options)
		switch {
		case err != nil:
			return nil, err
		case len(all)+len(list.Items) > maxServices:
			return nil, apierrors.NewBadRequest("there are too many APIServices")
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
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
