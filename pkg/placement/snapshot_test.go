package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAUnitNeedsWhatItsObjectsNeedTogether(t *testing.T) {
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	u := Unit{}
	u.Include("apps/v1/deployments", nil, cpu("2"))
	u.Include("/v1/persistentvolumeclaims", []string{"fast"}, nil)
	u.Include("apps/v1/deployments", []string{"", "fast"}, cpu("1"))
	want := Unit{
		APIs: []string{"/v1/persistentvolumeclaims", "apps/v1/deployments"}, StorageClasses: []string{"", "fast"}, Requests: cpu("3"),
	}
	if diff := cmp.Diff(want, u); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
