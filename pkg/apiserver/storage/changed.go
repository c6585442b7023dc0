package storage

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// versionField is the resource version of an object, where VersionedAttrs says what selectors see. Requests cannot
// select by it.
const versionField = "atoll.dev/resource-version"

// VersionedAttrs are the attributes of objects without a namespace that are listed with Changed.
func VersionedAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	l, f, err := storage.DefaultClusterScopedAttr(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("reading attributes: %w", err)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the resource version: %w", err)
	}
	f[versionField] = m.GetResourceVersion()
	return l, f, nil
}

// Version is one of an object.
type Version struct{ Name, ResourceVersion string }

// Changed selects the objects that are not as they are known, so that a list that is read for each request, and
// seldom changes, is not copied for each: a watch cache copies what it selects. Resource versions are unique in an
// etcd, and a server ends when its etcd goes back in time. It is for one list at a time.
type Changed struct {
	known []Version
	// as says which of the known are as they were; at is where the list is among them.
	as []bool
	at int
}

var _ fields.Selector = &Changed{}

// NewChanged selects what is not as it is known. The known are sorted by name, as lists are; what a list has in
// another order is selected.
func NewChanged(known []Version) *Changed {
	return &Changed{known: known, as: make([]bool, len(known))}
}

// As reports whether the known at a place was in the list, as it is known.
func (c *Changed) As(place int) bool { return c.as[place] }

// begin is called before each list: what is too old is listed again.
func (c *Changed) begin() {
	clear(c.as)
	c.at = 0
}

// Matches implements fields.Selector.
func (c *Changed) Matches(f fields.Fields) bool {
	name := f.Get(nameField)
	for c.at < len(c.known) && c.known[c.at].Name < name {
		c.at++
	}
	if c.at == len(c.known) || c.known[c.at].Name != name || c.known[c.at].ResourceVersion != f.Get(versionField) {
		return true
	}
	c.as[c.at] = true
	return false
}

// Empty implements fields.Selector.
func (*Changed) Empty() bool { return false }

// RequiresExactMatch implements fields.Selector.
func (*Changed) RequiresExactMatch(string) (string, bool) { return "", false }

// Transform implements fields.Selector.
func (c *Changed) Transform(fields.TransformFunc) (fields.Selector, error) { return c, nil }

// Requirements implements fields.Selector.
func (*Changed) Requirements() fields.Requirements { return nil }

// String implements fields.Selector.
func (*Changed) String() string { return versionField + "!=known" }

// DeepCopySelector implements fields.Selector.
func (c *Changed) DeepCopySelector() fields.Selector { return c }

// beginList says to a predicate that a list begins.
func beginList(p storage.SelectionPredicate) {
	if c, ok := p.Field.(*Changed); ok {
		c.begin()
	}
}
