package syncer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAQuotaIsEnforcedOnceAllItAsksForIsCounted(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name         string
		spec, status m
		want         bool
	}{
		{"no status", m{"hard": m{"pods": "2"}}, nil, false},
		{"an empty status", m{"hard": m{"pods": "2"}}, m{}, false},
		{"a name too few", m{"hard": m{"pods": "2", "limits.cpu": "1"}}, m{"hard": m{"pods": "2"}}, false},
		{"all", m{"hard": m{"pods": "2"}}, m{"hard": m{"pods": "2"}, "used": m{"pods": "0"}}, true},
		{"an older bound", m{"hard": m{"pods": "2"}}, m{"hard": m{"pods": "3"}}, true},
		{"nothing is asked for", m{}, nil, true},
	} {
		if got := Enforced(&unstructured.Unstructured{Object: m{"spec": c.spec, "status": c.status}}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
