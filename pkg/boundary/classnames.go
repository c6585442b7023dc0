package boundary

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// storageClassInfix is between the name of a class and what is limited of it, in a ResourceQuota.
const storageClassInfix = ".storageclass.storage.k8s.io/"

// quotaOfClasses limits the classes of the physical cluster to which those of the logical cluster are
// mapped: what two of them may have is what the one has that both are.
func quotaOfClasses(f *filter, _ member, value any, _ map[string]any, _ *field.Path) (any, bool) {
	hard, ok := value.(map[string]any)
	if !ok || len(f.Permits.StorageClassNames) == 0 {
		return value, true
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		there := name
		if class, what, found := strings.Cut(name, storageClassInfix); found {
			there = f.Permits.StorageClass(class) + storageClassInfix + what
		}
		if had, ok := out[there]; ok {
			out[there] = sum(had, hard[name])
		} else {
			out[there] = hard[name]
		}
	}
	return out, true
}

// sum is that of two quantities; of what is none the other one, which validation sees to.
func sum(a, b any) any {
	x, err := resource.ParseQuantity(str(a))
	if err != nil {
		return b
	}
	y, err := resource.ParseQuantity(str(b))
	if err != nil {
		return a
	}
	x.Add(y)
	return x.String()
}
