package references

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func parse(t *testing.T, values ...string) []placementv1alpha1.Targets {
	t.Helper()
	var out []placementv1alpha1.Targets
	for _, v := range values {
		targets, err := stamp.ParseTargets(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, targets)
	}
	return out
}

func TestOnlyPlacedObjectsThatReferToSomethingAreHeld(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "Pod"})
	for _, c := range []struct {
		name, object string
		want         []string
	}{
		{"a placed pod", `{metadata: {name: p, namespace: web, annotations: {kcp.io/cluster: shop, placement.atoll.dev/targets: '{"east":{}}'}}, spec: {imagePullSecrets: [{name: pull}]}}`,
			[]string{"shop|web/secrets/pull", "shop|web/serviceaccounts/default"}},
		{"a pod that waits", `{metadata: {name: p, namespace: web, annotations: {kcp.io/cluster: shop}}, spec: {imagePullSecrets: [{name: pull}]}}`, nil},
		{"a pod from below", `{metadata: {name: p, namespace: web, annotations: {kcp.io/cluster: shop, placement.atoll.dev/targets: '{"east":{"state":"Observed","uid":"1"}}'}}, spec: {imagePullSecrets: [{name: pull}]}}`, nil},
		{"a broken annotation", `{metadata: {name: p, namespace: web, annotations: {kcp.io/cluster: shop, placement.atoll.dev/targets: 'x'}}, spec: {imagePullSecrets: [{name: pull}]}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(c.object), &u.Object); err != nil {
				t.Fatal(err)
			}
			var got []string
			if h := hold(kind, u); h != nil {
				got = h.keys()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
