package agent

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// listMetadata is what an informer is compared with.
func listMetadata(client metadata.Interface, gvr schema.GroupVersionResource) func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if client == nil {
		return nil
	}
	return client.Resource(gvr).List
}

// rememberVersions has the informers know which versions own writes were answered
// with.
func (s *session) rememberVersions() {
	s.writtenCopies.wrote = func(c *placementv1alpha1.Copy) { s.copies.Wrote(c.ResourceVersion) }
	s.writtenBelow.wrote, s.writtenLogical.wrote = s.wroteTo(s.below), s.wroteTo(s.logical)
}

func (s *session) wroteTo(informers map[schema.GroupVersionResource]*objects) func(*unstructured.Unstructured) {
	byKind := make(map[schema.GroupVersionKind]*objects, len(informers))
	for gvr, informer := range informers {
		kind, ok := s.placed[gvr]
		if !ok {
			kind = s.observed[gvr]
		}
		byKind[kind.GroupVersionKind] = informer
	}
	return func(obj *unstructured.Unstructured) {
		if informer := byKind[obj.GroupVersionKind()]; informer != nil {
			informer.Wrote(obj.GetResourceVersion())
		}
	}
}

// endWithThePast ends the session when one of the servers went back: what it knows
// of own writes, and what it took note of, happened there no more.
func (s *session) endWithThePast(end func()) (remove func()) {
	above, below := s.up.server.OnWentBack(end), s.down.server.OnWentBack(end)
	return func() { above(); below() }
}

// informed is what the informer has of an object below, nil if it has nothing.
func (p *pass) informed(r controller.Request) *unstructured.Unstructured {
	informer := p.below[p.key.Resource]
	if informer == nil {
		return nil
	}
	obj, _ := informer.Get(r)
	return obj
}

// goneBelow: the physical cluster was asked, and answered that obj does not exist.
// That is believed over its watch.
func (s *session) goneBelow(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) {
	if informer := s.below[gvr]; informer != nil && obj != nil {
		informer.Gone(controller.RequestFor(obj), obj.GetUID())
	}
}

// namespaceGone: an object was refused because its namespace does not exist. If the
// namespace itself does not either, it is made again.
func (p *pass) namespaceGone(ctx context.Context) error {
	name := p.in.Namespace.Name
	informed, found := p.below[namespaces].Get(controller.Request{Name: name})
	key := keyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	obj, known := p.writtenBelow.pick(key, informed, found)
	_, err := p.down.dynamic.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return nil // made meanwhile
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("looking for the physical namespace: %w", err)
	}
	if known {
		p.writtenBelow.forget(key, obj.GetUID())
		p.goneBelow(namespaces, obj)
	}
	return nil
}
