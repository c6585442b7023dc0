package garbagecollector

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// errUnanswerable: an object of the cluster names an owner in a namespace. No
// retry makes sense of it; the object is left alone.
var errUnanswerable = errors.New("an object without a namespace cannot have an owner in one")

// absence is the proof, kept for a while, that a reference dangles. UIDs do not
// come back.
type absence struct {
	cluster   logicalcluster.Name
	namespace string
	ref       coordinates
}

// coordinates are what a reference says about its owner.
type coordinates struct {
	apiVersion, kind, name string
	uid                    types.UID
}

func coordinatesOf(ref metav1.OwnerReference) coordinates {
	return coordinates{apiVersion: ref.APIVersion, kind: ref.Kind, name: ref.Name, uid: ref.UID}
}

// obvious says that the informers know all owners as solid: nothing to ask.
func (c *Controller) obvious(key item, refs []metav1.OwnerReference, mapper meta.RESTMapper) bool {
	for _, ref := range refs {
		mapping, err := mappingOf(mapper, ref)
		if err != nil {
			return false
		}
		informer := c.Metadata.ForResource(mapping.Resource.GroupResource())
		if informer == nil {
			return false
		}
		found := false
		for _, namespace := range []string{"", key.Namespace} {
			o, ok := informer.Get(controller.Request{Cluster: key.Cluster, Namespace: namespace, Name: ref.Name})
			found = found || ok && o.UID == ref.UID && !deletesDependents(o)
		}
		if !found {
			return false
		}
	}
	return true
}

// classify asks the server about each owner that refs name.
func (c *Controller) classify(ctx context.Context, key item, refs []metav1.OwnerReference, mapper meta.RESTMapper) ([]owner, error) {
	owners := make([]owner, 0, len(refs))
	for _, ref := range refs {
		state, err := c.ask(ctx, key, ref, mapper)
		if err != nil {
			return nil, fmt.Errorf("owner %s %s: %w", ref.Kind, ref.Name, err)
		}
		owners = append(owners, owner{uid: ref.UID, state: state})
	}
	return owners, nil
}

func (c *Controller) ask(ctx context.Context, key item, ref metav1.OwnerReference, mapper meta.RESTMapper) (ownerState, error) {
	proof := absence{cluster: key.Cluster, namespace: key.Namespace, ref: coordinatesOf(ref)}
	if _, known := c.absent.Get(proof); known {
		return dangling, nil
	}
	mapping, err := mappingOf(mapper, ref)
	if err != nil {
		return solid, err
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace = key.Namespace; namespace == "" {
			return solid, errUnanswerable
		}
	}
	o, err := c.Client.Resource(mapping.Resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && o.UID != ref.UID:
		c.absent.Add(proof, struct{}{})
		return dangling, nil
	case err != nil:
		return solid, err
	case deletesDependents(o):
		return waiting, nil
	default:
		return solid, nil
	}
}

func mappingOf(mapper meta.RESTMapper, ref metav1.OwnerReference) (*meta.RESTMapping, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: ref.APIVersion, Kind: ref.Kind}}
	}
	return mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
}

// dependents calls f with every object that names the owner.
func (c *Controller) dependents(cluster logicalcluster.Name, uid types.UID, f func(schema.GroupVersionResource, *metav1.PartialObjectMetadata)) {
	key := controller.UIDKey(cluster, uid)
	for gvr, informer := range c.Metadata.All() {
		for _, d := range informer.ByIndex(controller.OwnerIndex, key) {
			f(gvr, d)
		}
	}
}
