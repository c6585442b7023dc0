package storage

import (
	"strings"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/storage"
	"pgregory.net/rapid"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// segment draws short names, so that equal ones and prefixes of others are common.
var segment = rapid.StringMatching(`[ab-]{1,4}`)

func TestNoKeyOfOneLogicalClusterIsReadWithAnother(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := keys{prefix: rapid.SampledFrom([]string{"/pods", "/apps/deployments", "/pods/"}).Draw(t, "prefix")}
		root := strings.TrimSuffix(k.prefix, "/")
		a := logicalcluster.Name(segment.Draw(t, "cluster"))
		b := logicalcluster.Name(segment.Filter(func(s string) bool { return s != a.String() }).Draw(t, "other cluster"))
		path := "/" + strings.Join(rapid.SliceOfN(segment, 1, 2).Draw(t, "path"), "/")

		of := func(c logicalcluster.Name, key string, recursive bool) string {
			got, cluster, err := k.many(scope.WithCluster(t.Context(), c), key, recursive)
			if err != nil || cluster != c {
				t.Fatalf("key %q in %q: %v", key, c, err)
			}
			return got
		}
		// What a wrote, b reaches by no key, and by no list at any depth.
		stored := of(a, root+path, false)
		if want := root + "/" + a.String() + path; stored != want {
			t.Fatalf("key %q, want %q", stored, want)
		}
		if got := of(b, root+"/"+strings.Join(rapid.SliceOfN(segment, 1, 2).Draw(t, "other path"), "/"), false); got == stored {
			t.Fatalf("%q is a key of %q and %q", got, a, b)
		}
		for _, list := range []string{root, root + "/", root + path} {
			under, err := storage.PrepareKey(k.prefix, of(b, list, true), true)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(stored, under) {
				t.Fatalf("a list of %q in %q reaches %q", list, b, stored)
			}
		}
	})
}

func FuzzAKeyStaysInItsLogicalCluster(f *testing.F) {
	f.Add("a", "/pods/ns/web")
	f.Add("a", "/pods")
	f.Add("a/b", "/pods/ns/web")
	f.Add("..", "/pods/ns/web")
	f.Add("*", "/pods/ns/web")
	f.Add("a", "/podsecrets/x")
	f.Add("a", "/pods/../secrets/x")
	f.Add("_orphan", "/pods/ns/web")
	f.Fuzz(func(t *testing.T, cluster, key string) {
		k := keys{prefix: "/pods"}
		got, c, err := k.many(scope.WithCluster(t.Context(), logicalcluster.Name(cluster)), key, true)
		if err != nil {
			return
		}
		if c == scope.Wildcard {
			if strings.TrimSuffix(got, "/") != "/pods" {
				t.Errorf("a request over all logical clusters reads %q", got)
			}
			return
		}
		if strings.ContainsAny(cluster, "/._*") || !strings.HasPrefix(got+"/", "/pods/"+cluster+"/") {
			t.Errorf("key %q in %q becomes %q", key, cluster, got)
		}
		if strings.Contains(got+"/", "/../") {
			t.Errorf("key %q in %q leads out of it: %q", key, cluster, got)
		}
	})
}
