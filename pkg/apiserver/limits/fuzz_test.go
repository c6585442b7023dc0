package limits

import (
	"strings"
	"testing"
)

// FuzzKeys: a key counts for the logical cluster that its path names, or for none.
func FuzzKeys(f *testing.F) {
	f.Add(Prefix + "pods/one/web/a")
	f.Add(Prefix + "services/specs/one/web/a")
	f.Add(Prefix + "example.com/widgets/one/a")
	f.Add(Prefix + "services//one")
	f.Fuzz(func(t *testing.T, key string) {
		cluster, _, ok := parse(key)
		if ok && (cluster == "" || strings.Contains(cluster, "/") || !strings.HasPrefix(key, Prefix) || !strings.Contains(key, "/"+cluster+"/")) {
			t.Errorf("%q counts for %q", key, cluster)
		}
	})
}
