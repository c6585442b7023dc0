package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/placement"
)

func newPlugin(config Config) (*plugin, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	lookup := &lookup{
		kube: config.Kube, client: config.Client, metadata: config.Metadata, dynamic: config.Dynamic, namespaces: config.Namespaces,
		logicalClusters: config.LogicalClusters, physicalClusters: config.PhysicalClusters, fromStorage: config.Stored, placements: config.Placements, kinds: config.Kinds, objects: config.Objects,
		clock: config.Clock, standstill: config.Standstill, watched: config.Clock.Now().Add(placement.Silence),
	}
	placing := newPlacing(config, lookup)
	return &plugin{
		Handler:   admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		lookup:    lookup,
		lifecycle: newLifecycle(config.Clock),
		placing:   placing,
		gate:      newGate(config, lookup),
		pins:      pins{client: config.Client, physicalClusters: config.PhysicalClusters, decider: placing.decider},
	}, nil
}

// plugin has the control plane's own steps; Chain says when which is done.
type plugin struct {
	*admission.Handler
	lookup    *lookup
	lifecycle *lifecycle
	placing   *placing
	pins      pins
	gate      *gate
}

// permit says whether the request may be at all; nothing is changed.
func (p *plugin) permit(ctx context.Context, r *request) error {
	if r.syncer != "" { // before it hears of a namespace that is not placed there
		if err := guard(ctx, r); err != nil {
			return err
		}
		return p.lifecycle.admit(ctx, r)
	}
	if err := p.lifecycle.admit(ctx, r); err != nil {
		return err
	}
	return guard(ctx, r)
}

// stamp has to be the last that changes the object: it undoes what others did to
// the system's metadata.
func (p *plugin) stamp(ctx context.Context, r *request) error {
	if r.obj == nil {
		return nil
	}
	p.protect(r)
	p.withoutSecrets(r)
	keepAddresses(ctx, r)
	p.freshen(ctx, r)
	if err := p.runtimeHandler(ctx, r); err != nil {
		return err
	}
	noteNodePorts(r)
	if err := p.templates(ctx, r); err != nil {
		return err
	}
	if err := p.placing.stage(ctx, r, r.obj); err != nil {
		return err
	}
	if err := p.placing.admit(ctx, r); err != nil {
		return err
	}
	warnOfStages(ctx, r)
	p.warnOfEndpoints(ctx, r)
	return p.permitted(ctx, r)
}

// check sees the object as it will be stored, and what is deleted, which is known
// only here.
func (p *plugin) check(ctx context.Context, r *request) error {
	if err := p.lifecycle.immortal(r); err != nil {
		return err
	}
	if err := guard(ctx, r); err != nil {
		return err
	}
	p.placing.units.note(r)
	if err := p.gate.validate(ctx, r); err != nil {
		return err
	}
	if r.obj == nil {
		return nil
	}
	if err := p.checkProtected(ctx, r); err != nil {
		return err
	}
	return p.pins.validate(ctx, r)
}

// request gathers what all steps need.
func (p *plugin) request(ctx context.Context, a admission.Attributes) (*request, error) {
	r, err := newRequest(ctx, a, p.lookup)
	if err != nil {
		return nil, admission.NewForbidden(a, err)
	}
	if obj := a.GetObject(); obj != nil {
		if r.obj, err = meta.Accessor(obj); err != nil {
			r.obj = nil // a list or status: nothing that has metadata
		}
	}
	if old := a.GetOldObject(); old != nil {
		if r.old, err = meta.Accessor(old); err != nil {
			return nil, admission.NewForbidden(a, fmt.Errorf("reading the metadata of what is there: %w", err))
		}
	}
	return r, nil
}
