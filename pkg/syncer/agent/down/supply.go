package down

import (
	"context"
	"errors"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

// missing are the supplies that the physical namespace of the object lacks.
func (p *pass) missing(s syncer.Supplies) syncer.Supplies {
	return p.Supplies.Missing(p.in.Namespace.Name, s)
}

// supply makes what pods mount. That the control plane has no token is said on the Copy; it
// may have one in a moment, as when it has not noted yet that the object needs one.
func (p *pass) supply(ctx context.Context, s syncer.Supplies) error {
	if s.Nameserver {
		return p.findNames(ctx)
	}
	in := syncer.Space{Cluster: p.key.Request.Cluster, Namespace: p.key.Request.Namespace, Physical: p.in.Namespace.Name}
	err := p.Supplies.Write(ctx, in, s)
	switch {
	case err == nil:
		return nil
	case syncer.IsSilence(err) && !errors.Is(err, syncer.ErrSupplyNotOurs):
		return err
	}
	p.in.Failure = syncer.NotSupplied(err)
	return nil
}

// findNames has it known who answers the pods of the logical cluster. As long as nobody does,
// what is there stays as it is: pods that ask a server that is not there would resolve nothing.
func (p *pass) findNames(ctx context.Context) error {
	err := p.Supplies.FindNames(ctx, p.key.Request.Cluster)
	p.in.Nameserver = p.Supplies.Nameserver(p.key.Request.Cluster)
	switch {
	case syncer.IsSilence(err) && !errors.Is(err, syncer.ErrNamesNotReady) && !errors.Is(err, syncer.ErrNoPort):
		return err
	case err != nil:
		p.in.Failure = syncer.NoNames(err)
	}
	return nil
}
