package logicalclusters

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestALogicalClusterLacksTheSystemNamespacesThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	for title, c := range map[string]struct {
		has  []string
		want []string
	}{
		"one of an older release":   {[]string{"default"}, []string{"kube-system", "kube-public", "kube-node-lease"}},
		"one that has used it":      {[]string{"default", "kube-system"}, []string{"kube-public", "kube-node-lease"}},
		"one that has deleted some": {[]string{"default", "kube-system", "kube-public"}, []string{"kube-node-lease"}},
		"a complete one":            {[]string{"kube-system", "kube-public", "kube-node-lease"}, nil},
	} {
		got := missing("shop", func(namespace string) bool { return slices.Contains(c.has, namespace) })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", title, diff)
		}
	}
}
