package transition

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// index finds objects of a State by what others say of them. Each Service, and each claim that is mounted, would have
// all objects of a unit looked at else, and a unit may have thousands of each.
type index struct {
	byUID map[types.UID]int
	// byLabel are the objects that make pods with a label, as key and value.
	byLabel map[[2]string][]int
	// templates are the labels of the pods that an object makes, of each of its templates.
	templates map[int][]map[string]string
	// available are the pods of these that are available, by target.
	available map[int]map[string]int64
	// waiting are the names of the claims that wait on a target for their volumes.
	waiting map[string]map[string]bool
}

func newIndex(objects []Object) *index {
	x := &index{byUID: make(map[types.UID]int, len(objects)), byLabel: map[[2]string][]int{}, templates: map[int][]map[string]string{}, available: map[int]map[string]int64{}, waiting: map[string]map[string]bool{}}
	for i, o := range objects {
		x.byUID[o.Logical.GetUID()] = i
		for _, template := range workload.PodTemplates(o.Kind, o.Logical.Object) {
			labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
			x.templates[i] = append(x.templates[i], labels)
			for key, value := range labels {
				label := [2]string{key, value}
				if all := x.byLabel[label]; len(all) == 0 || all[len(all)-1] != i {
					x.byLabel[label] = append(all, i)
				}
			}
		}
		if len(x.templates[i]) > 0 {
			x.available[i] = make(map[string]int64, len(o.Copies))
			for name, c := range o.Copies {
				x.available[i][name] = availableIn(c)
			}
		}
		if !o.Kind.IsClaim() {
			continue
		}
		for name, entry := range o.targets() {
			if entry.State != placementv1alpha1.TargetStateWaiting {
				continue
			}
			if x.waiting[name] == nil {
				x.waiting[name] = map[string]bool{}
			}
			x.waiting[name][o.Logical.GetName()] = true
		}
	}
	return x
}

// indexed is a State whose objects are found by its index. What is looked for in another one has it made each time.
func (s State) indexed() State {
	if s.index == nil {
		s.index = newIndex(s.Objects)
	}
	return s
}

// selected are the objects that make pods which a selector selects, by their places; none of an empty one.
func (s State) selected(selector map[string]string) []int {
	if len(selector) == 0 {
		return nil
	}
	x := s.indexed().index
	var fewest []int
	first := true
	for key, value := range selector {
		if all := x.byLabel[[2]string{key, value}]; first || len(all) < len(fewest) {
			fewest, first = all, false
		}
	}
	var out []int
	for _, i := range fewest {
		for _, labels := range x.templates[i] {
			if matches(selector, labels) {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// matches says that a selector selects a pod with some labels.
func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}
