package stock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// source is the informer whose objects a lazy plugin exists for.
type source interface {
	HasCluster(logicalcluster.Name) bool
}

// lazy is a plugin with one instance for each logical cluster that has objects
// for it.
type lazy struct {
	environment *Environment
	source      source
	make        func(*setup) (admission.Interface, error)
	operations  *admission.Handler

	mu        sync.Mutex
	instances map[logicalcluster.Name]*instance
}

// instance is made once, by whoever needs it first, and taken down once.
type instance struct {
	plugin  admission.Interface
	factory *controller.Factory
	stop    chan struct{}
	err     error

	start, end sync.Once
}

var (
	_ admission.MutationInterface   = &lazy{}
	_ admission.ValidationInterface = &lazy{}
)

func newLazy(e *Environment, s source, operations *admission.Handler, make func(*setup) (admission.Interface, error)) *lazy {
	return &lazy{environment: e, source: s, make: make, operations: operations, instances: map[logicalcluster.Name]*instance{}}
}

// Handles implements admission.Interface.
func (l *lazy) Handles(o admission.Operation) bool { return l.operations.Handles(o) }

// Admit implements admission.MutationInterface.
func (l *lazy) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	p, err := l.of(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if mutator, ok := p.(admission.MutationInterface); ok {
		return mutator.Admit(ctx, a, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (l *lazy) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	p, err := l.of(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if validator, ok := p.(admission.ValidationInterface); ok {
		return validator.Validate(ctx, a, o)
	}
	return nil
}

// of is the instance for the logical cluster of a request; nil if it has no
// objects for the plugin.
func (l *lazy) of(ctx context.Context) (admission.Interface, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok || c == scope.Wildcard {
		return nil, scope.ErrNoCluster
	}
	return l.ensure(c)
}

func (l *lazy) ensure(c logicalcluster.Name) (admission.Interface, error) {
	if !l.source.HasCluster(c) {
		return nil, nil
	}
	l.mu.Lock()
	i := l.instances[c]
	if i == nil {
		i = &instance{factory: l.environment.config.Viewers.For(c), stop: make(chan struct{})}
		l.instances[c] = i
	}
	l.mu.Unlock()
	i.start.Do(func() { i.plugin, i.err = l.begin(c, i) })
	if i.err != nil {
		l.remove(c, i)
		return nil, fmt.Errorf("making an admission plugin of logical cluster %s: %w", c, i.err)
	}
	return i.plugin, nil
}

// begin makes and initializes a plugin.
func (l *lazy) begin(c logicalcluster.Name, i *instance) (admission.Interface, error) {
	s, err := l.environment.full(c, i.factory, i.stop)
	if err != nil {
		return nil, err
	}
	p, err := l.make(&s)
	if err != nil {
		return nil, err
	}
	s.Initialize(p)
	return p, admission.ValidateInitialization(p)
}

// reconcile has an instance ready where there are objects, and takes it down
// where there are none any more.
func (l *lazy) reconcile(c logicalcluster.Name) error {
	if _, err := l.ensure(c); err != nil || l.source.HasCluster(c) {
		return err
	}
	l.mu.Lock()
	i := l.instances[c]
	l.mu.Unlock()
	if i != nil {
		l.remove(c, i)
	}
	return nil
}

// errRemoved is for who comes to an instance that goes.
var errRemoved = errors.New("its rules are going")

func (l *lazy) remove(c logicalcluster.Name, i *instance) {
	l.mu.Lock()
	if l.instances[c] == i {
		delete(l.instances, c)
	}
	l.mu.Unlock()
	i.start.Do(func() { i.err = errRemoved })
	i.end.Do(func() {
		close(i.stop)
		i.factory.Close()
	})
}

// close takes all instances down.
func (l *lazy) close() {
	l.mu.Lock()
	instances := maps.Clone(l.instances)
	l.mu.Unlock()
	for c, i := range instances {
		l.remove(c, i)
	}
}
