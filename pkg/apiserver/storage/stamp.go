package storage

import (
	"fmt"
	"maps"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// stamp writes the logical cluster into obj. The map of annotations may be
// shared with other objects and is replaced, not changed.
func stamp(obj runtime.Object, c logicalcluster.Name) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("stamping the logical cluster: %w", err)
	}
	old := m.GetAnnotations()
	if old[logicalcluster.AnnotationKey] == c.String() {
		return nil
	}
	annotations := make(map[string]string, len(old)+1)
	maps.Copy(annotations, old)
	annotations[logicalcluster.AnnotationKey] = c.String()
	m.SetAnnotations(annotations)
	return nil
}

// stamped stamps what update returns.
func stamped(update storage.UpdateFunc, c logicalcluster.Name) storage.UpdateFunc {
	return func(in runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		out, ttl, err := update(in, meta)
		if err != nil || out == nil {
			return out, ttl, err
		}
		return out, ttl, stamp(out, c)
	}
}
