package storage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

func TestAnIndexFindsWhatIsInItsLogicalClusterNow(t *testing.T) {
	t.Parallel()
	const byNode = "example.com/node"
	f := newStore(t, func(s *setup) {
		s.indexes = map[string]func(runtime.Object) []string{byNode: func(obj runtime.Object) []string {
			p := obj.(*example.Pod)
			return []string{logicalcluster.From(p).String() + "|" + p.Spec.NodeName}
		}}
	})
	on := func(name, node string) *example.Pod {
		p := pod(name)
		p.Spec.NodeName = node
		return p
	}
	shop, other := in(t, "shop"), in(t, "other")
	f.create(shop, t, on("a", "n1"))
	f.create(shop, t, on("b", "n2"))
	f.create(shop, t, on("c", "n1"))
	f.create(other, t, on("d", "n1"))

	find := func(value, version string) []string {
		t.Helper()
		list := &example.PodList{}
		o := upstream.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Indexed(byNode, value, upstream.DefaultNamespaceScopedAttr)}
		if err := f.GetList(shop, prefix, o, list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	}
	for _, c := range []struct {
		value, version string
		want           []string
	}{
		{"shop|n1", "", []string{"a", "c"}},
		{"shop|n1", "0", []string{"a", "c"}},
		{"shop|n2", "", []string{"b"}},
		{"shop|n3", "", nil},
		{"other|n1", "", nil},
	} {
		if diff := cmp.Diff(c.want, find(c.value, c.version)); diff != "" {
			t.Errorf("%s at %q (-want +got):\n%s", c.value, c.version, diff)
		}
	}
	f.update(shop, t, "a", func(p *example.Pod) { p.Spec.NodeName = "n3" })
	f.delete(shop, t, "c")
	if got := append(find("shop|n1", ""), find("shop|n3", "")...); !cmp.Equal(got, []string{"a"}) {
		t.Errorf("after a change and a deletion it finds %v", got)
	}
}
