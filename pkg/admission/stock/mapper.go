package stock

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mapper is the RESTMapper of a logical cluster as it is when it is asked:
// kinds come and go.
type mapper struct {
	cluster logicalcluster.Name
	find    func(context.Context, logicalcluster.Name) (meta.RESTMapper, error)
}

var _ meta.RESTMapper = mapper{}

func ask[R any](m mapper, question func(meta.RESTMapper) (R, error)) (R, error) {
	current, err := m.find(context.Background(), m.cluster) //nolint:forbidigo // upstream's interface has no context
	if err != nil {
		return *new(R), fmt.Errorf("finding the kinds of logical cluster %s: %w", m.cluster, err)
	}
	return question(current)
}

func (m mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return ask(m, func(c meta.RESTMapper) (schema.GroupVersionKind, error) { return c.KindFor(r) })
}

func (m mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return ask(m, func(c meta.RESTMapper) ([]schema.GroupVersionKind, error) { return c.KindsFor(r) })
}

func (m mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return ask(m, func(c meta.RESTMapper) (schema.GroupVersionResource, error) { return c.ResourceFor(r) })
}

func (m mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return ask(m, func(c meta.RESTMapper) ([]schema.GroupVersionResource, error) { return c.ResourcesFor(r) })
}

func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return ask(m, func(c meta.RESTMapper) (*meta.RESTMapping, error) { return c.RESTMapping(gk, versions...) })
}

func (m mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return ask(m, func(c meta.RESTMapper) ([]*meta.RESTMapping, error) { return c.RESTMappings(gk, versions...) })
}

func (m mapper) ResourceSingularizer(resource string) (string, error) {
	return ask(m, func(c meta.RESTMapper) (string, error) { return c.ResourceSingularizer(resource) })
}
