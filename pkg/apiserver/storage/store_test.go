package storage_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"
)

func TestEqualNamesInDifferentLogicalClustersAreDifferentObjects(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	for _, cluster := range []string{"a", "ab", "abc"} {
		p := pod("web")
		p.Spec.NodeName = cluster
		f.create(in(t, cluster), t, p)
	}
	f.update(in(t, "ab"), t, "web", func(p *example.Pod) { p.Annotations = nil; p.Spec.NodeName = "changed" })
	f.delete(in(t, "abc"), t, "web")

	for cluster, want := range map[string]string{"a": "a", "ab": "changed"} {
		for _, rv := range []string{"", "0"} {
			eventually(t, "reading "+cluster, func() error {
				got := &example.Pod{}
				if err := f.Get(in(t, cluster), key("ns", "web"), upstream.GetOptions{ResourceVersion: rv}, got); err != nil {
					return err
				}
				if got.Spec.NodeName != want || logicalcluster.From(got).String() != cluster {
					return fmt.Errorf("got the pod of %s in %s", got.Spec.NodeName, logicalcluster.From(got))
				}
				return nil
			})
		}
		if diff := cmp.Diff([]string{cluster + "/web"}, f.list(in(t, cluster), t, prefix, "")); diff != "" {
			t.Errorf("listing %s (-want +got):\n%s", cluster, diff)
		}
	}
	err := f.Get(in(t, "abc"), key("ns", "web"), upstream.GetOptions{}, &example.Pod{})
	if !upstream.IsNotFound(err) {
		t.Errorf("reading a deleted pod: %v", err)
	}
	if diff := cmp.Diff([]string{"a/web", "ab/web"}, f.list(everywhere(t), t, prefix, "")); diff != "" {
		t.Errorf("listing all (-want +got):\n%s", diff)
	}
}

func TestARequestWithoutALogicalClusterFails(t *testing.T) {
	t.Parallel()
	for _, gr := range []schema.GroupResource{pods, {Resource: "events"}} {
		f := newStore(t, func(s *setup) { s.resource = gr })
		for verb, do := range verbs(f, key("ns", "web")) {
			if err := do(t.Context()); !apierrors.IsInternalError(err) {
				t.Errorf("%s of %s without a logical cluster: %v", verb, gr, err)
			}
			if err := do(in(t, "no/name")); !apierrors.IsInternalError(err) {
				t.Errorf("%s of %s in a logical cluster with a wrong name: %v", verb, gr, err)
			}
			if err := do(everywhere(t)); !apierrors.IsBadRequest(err) {
				t.Errorf("%s of %s below a namespace of all logical clusters: %v", verb, gr, err)
			}
		}
	}
}
