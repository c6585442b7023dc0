package crds

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SystemVersion is a version in which every resource that is defined anywhere can
// be listed and watched over all logical clusters. It says nothing about which
// versions any of them serves.
const SystemVersion = "v1"

// Follow calls added for each resource that some logical cluster defines, and
// removed when none does any more.
func (d *Definitions) Follow(added, removed func(schema.GroupVersionResource)) {
	d.Handle(func(old, now *Definition) {
		if now != nil && now.Served() && (old == nil || !old.Served()) {
			added(now.Resource().WithVersion(SystemVersion))
		}
		if now == nil && len(d.Everywhere(old.Resource())) == 0 {
			removed(old.Resource().WithVersion(SystemVersion))
		}
	})
}
