package storage

import (
	"maps"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

// Fields that only the store selects by. Requests cannot: their field selectors
// pass the conversions of the resource's group version first.
const (
	// clusterField holds the logical cluster. It is the trigger of the watch
	// cache: an event is given to the watchers of its logical cluster only.
	clusterField = "kcp.io/cluster"
	// targetsField holds the targets that the object is visible to, each between
	// commas. The watch cache keeps an index by it.
	targetsField = "placement.atoll.dev/targets"
)

// attrs are the attributes of obj that selectors see, ours included.
func (r *resource) attrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	l, f, err := r.baseAttrs(obj)
	if err != nil {
		return nil, nil, err
	}
	if f == nil {
		f = fields.Set{}
	}
	// The set was made for this call, as in upstream's WithFieldMutation.
	f[clusterField] = clusterOf(obj).String()
	if targets := r.targets(obj); len(targets) > 0 {
		f[targetsField] = "," + strings.Join(targets, ",") + ","
	}
	return l, f, nil
}

// kept are the attributes that the watch cache keeps of an object, for good: a map of
// its own costs 350 bytes. Without the logical cluster, with which its key begins, it
// is the same for all objects with that name in a namespace of that name: logical
// clusters are alike.
func (r *resource) kept(obj runtime.Object) (labels.Set, fields.Set, error) {
	l, f, err := r.attrs(obj)
	if err != nil {
		return nil, nil, err
	}
	delete(f, clusterField)
	return l, r.sharer.attributes.Intern(f), nil
}

// trigger buckets the watchers of the watch cache.
func (r *resource) trigger() storage.IndexerFuncs {
	return storage.IndexerFuncs{clusterField: func(obj runtime.Object) string { return clusterOf(obj).String() }}
}

// indexers adds the index by target to those of the registry.
func (r *resource) indexers(given *cache.Indexers) *cache.Indexers {
	all := cache.Indexers{}
	if given != nil {
		maps.Copy(all, *given)
	}
	all[storage.FieldIndex(targetsField)] = func(obj any) ([]string, error) {
		o, ok := obj.(runtime.Object)
		if !ok {
			return nil, nil
		}
		return r.targets(o), nil
	}
	return &all
}

// inCluster narrows a watch of the watch cache, whose key is of c, to the bucket of c.
func (r *resource) inCluster(p storage.SelectionPredicate, c logicalcluster.Name) storage.SelectionPredicate {
	p.Field = and(p.Field, clusterSelector{c})
	p.IndexFields = []string{clusterField}
	p.GetAttrs = r.attrs
	return p
}

// visibleTo narrows a list to the view of target. With index, the watch cache
// walks the objects of the target instead of those below the key.
func (r *resource) visibleTo(p storage.SelectionPredicate, target string, index bool) storage.SelectionPredicate {
	p.Field = and(p.Field, targetSelector{target: target})
	p.GetAttrs = r.attrs
	if index {
		p.IndexFields, p.IndexLabels = []string{targetsField}, nil
	}
	return p
}

func and(a, b fields.Selector) fields.Selector {
	if a == nil || a.Empty() {
		return b
	}
	return fields.AndSelectors(a, b)
}

// clusterSelector names the bucket of a logical cluster. It selects everything: the key
// of the request is of that logical cluster.
type clusterSelector struct{ cluster logicalcluster.Name }

var _ fields.Selector = clusterSelector{}

// Matches implements fields.Selector.
func (clusterSelector) Matches(fields.Fields) bool { return true }

// Empty implements fields.Selector.
func (clusterSelector) Empty() bool { return false }

// RequiresExactMatch implements fields.Selector: it names the bucket.
func (s clusterSelector) RequiresExactMatch(field string) (string, bool) {
	return s.cluster.String(), field == clusterField
}

// Transform implements fields.Selector.
func (s clusterSelector) Transform(fields.TransformFunc) (fields.Selector, error) { return s, nil }

// Requirements implements fields.Selector.
func (clusterSelector) Requirements() fields.Requirements { return nil }

// String implements fields.Selector.
func (s clusterSelector) String() string { return clusterField + "=" + s.cluster.String() }

// DeepCopySelector implements fields.Selector.
func (s clusterSelector) DeepCopySelector() fields.Selector { return s }

// targetSelector selects what is visible to target, or to any if that is empty.
type targetSelector struct{ target string }

var _ fields.Selector = targetSelector{}

// Matches implements fields.Selector.
func (s targetSelector) Matches(f fields.Fields) bool {
	if s.target == "" {
		return f.Has(targetsField)
	}
	return strings.Contains(f.Get(targetsField), ","+s.target+",")
}

// Empty implements fields.Selector.
func (targetSelector) Empty() bool { return false }

// RequiresExactMatch implements fields.Selector: it names the value of the index.
func (s targetSelector) RequiresExactMatch(field string) (string, bool) {
	return s.target, field == targetsField && s.target != ""
}

// Transform implements fields.Selector.
func (s targetSelector) Transform(fields.TransformFunc) (fields.Selector, error) { return s, nil }

// Requirements implements fields.Selector.
func (targetSelector) Requirements() fields.Requirements { return nil }

// String implements fields.Selector.
func (s targetSelector) String() string { return targetsField + "~" + s.target }

// DeepCopySelector implements fields.Selector.
func (s targetSelector) DeepCopySelector() fields.Selector { return s }
