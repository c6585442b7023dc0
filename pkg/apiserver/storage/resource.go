package storage

import (
	"fmt"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// orphan is where the watch cache keeps objects that do not say which logical
// cluster they are of. It is no valid name, so nobody reads it; an error instead
// would make the whole resource unavailable for one bad object.
const orphan = logicalcluster.Name("_orphan")

// resource is what the store knows about the objects that it holds.
type resource struct {
	gr          schema.GroupResource
	keys        keys
	keyFunc     func(runtime.Object) (string, error)
	baseAttrs   storage.AttrFunc
	targets     func(runtime.Object) []string
	sharer      *sharer
	newFunc     func() runtime.Object
	newListFunc func() runtime.Object
	// large are the bytes of large values that were read since old events were forgotten.
	large atomic.Int64
}

// key is the key of obj in storage, derived from the object alone.
func (r *resource) key(obj runtime.Object) (string, error) {
	if isNowhere(obj) {
		return nowhere, nil
	}
	key, err := r.keyFunc(obj)
	if err != nil {
		return "", fmt.Errorf("computing the key of an object of %s: %w", r.gr, err)
	}
	c := clusterOf(obj)
	if !validSegment(c) {
		c = orphan
	}
	return r.keys.rewrite(key, c, false)
}

// clusterOf reads the logical cluster that is stamped on obj.
func clusterOf(obj runtime.Object) logicalcluster.Name {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return logicalcluster.From(m)
}
