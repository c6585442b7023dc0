package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	restclient "k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/admission"
	"github.com/atoll-dev/atoll/pkg/admission/stock"
	"github.com/atoll-dev/atoll/pkg/apiserver"
)

// newChain makes the admission chain around the control plane's own steps.
func (c *composition) newChain(config *restclient.Config, own admission.Config) (*admission.Chain, error) {
	chain, err := admission.NewChain(own, admission.NewInformers(c.kube, c.serviceAccounts), stock.Config{
		Loopback: config, Authorizer: &c.late, Egress: c.egress, Mapper: c.late.restMapper,
	})
	if err != nil {
		return nil, fmt.Errorf("making the admission chain: %w", err)
	}
	return chain, nil
}

// late is what admission needs of a server that is made with the admission chain:
// it answers from the server's start on.
type late struct {
	mu         sync.RWMutex
	authorizer authorizer.UnconditionalAuthorizer
	mapper     func(context.Context, logicalcluster.Name) (meta.RESTMapper, error)
	stored     admission.Stored
}

var errNotStarted = errors.New("the server has not started yet")

func (l *late) set(server *apiserver.Server, mapper func(context.Context, logicalcluster.Name) (meta.RESTMapper, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.authorizer, l.mapper, l.stored = server.Generic.Authorizer, mapper, server.Stored
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (l *late) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	l.mu.RLock()
	next := l.authorizer
	l.mu.RUnlock()
	if next == nil {
		return authorizer.DecisionDeny, "", errNotStarted
	}
	return next.Authorize(ctx, a)
}

func (l *late) restMapper(ctx context.Context, c logicalcluster.Name) (meta.RESTMapper, error) {
	l.mu.RLock()
	next := l.mapper
	l.mu.RUnlock()
	if next == nil {
		return nil, errNotStarted
	}
	return next(ctx, c)
}

// reader is what reads what decisions look at; nil until the server has started.
func (l *late) reader() admission.Stored {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.stored
}
