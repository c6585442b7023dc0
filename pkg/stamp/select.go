package stamp

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Selection is which objects a policy is about, read once.
type Selection struct {
	kinds  []placementv1alpha1.ObjectKind
	names  []string
	labels labels.Selector
}

// ReadSelection reads one; nil selects everything. One whose label selector cannot be read
// selects nothing: its validation said so.
func ReadSelection(s *placementv1alpha1.ObjectSelection) Selection {
	out := Selection{labels: labels.Everything()}
	if s == nil {
		return out
	}
	out.kinds, out.names = s.Kinds, s.Names
	if s.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			selector = labels.Nothing()
		}
		out.labels = selector
	}
	return out
}

// Selects says that it has an object.
func (s Selection) Selects(kind workload.Kind, obj metav1.Object) bool {
	named := placementv1alpha1.ObjectKind{Group: kind.Group, Kind: kind.Kind}
	return (len(s.kinds) == 0 || slices.Contains(s.kinds, named)) &&
		(len(s.names) == 0 || slices.Contains(s.names, obj.GetName())) &&
		s.labels.Matches(labels.Set(obj.GetLabels()))
}
