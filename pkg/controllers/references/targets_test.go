package references

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestTargetsAreThoseOfTheReferrers(t *testing.T) {
	const removing = `{"east":{"state":"Removing"}}`
	for _, c := range []struct {
		name      string
		current   string
		referrers []string
		want      string
	}{
		{"nothing refers to it", "", nil, ""},
		{"one refers to it", "", []string{`{"east":{}}`}, `{"east":{}}`},
		{"several refer to it", "", []string{`{"east":{}}`, `{"west":{"replicas":2}}`}, `{"east":{},"west":{}}`},
		{"as before", `{"east":{}}`, []string{`{"east":{}}`}, `{"east":{}}`},
		{"the last one left", `{"east":{},"west":{}}`, []string{`{"west":{}}`}, `{"east":{"state":"Removing"},"west":{}}`},
		{"the referrer is being removed: it goes later", `{"east":{}}`, []string{removing}, `{"east":{}}`},
		{"a referrer that is being removed needs nothing new", "", []string{removing}, ""},
		{"one is removed, another stays", "", []string{removing, `{"east":{}}`}, `{"east":{}}`},
		{"wanted again during the removal", removing, []string{`{"east":{}}`}, removing},
		{"what a controller below adopted keeps what it has", `{"east":{}}`, []string{`{"east":{"state":"Observed","uid":"1","adopted":true}}`}, `{"east":{}}`},
		{"and needs nothing new", "", []string{`{"east":{"state":"Observed","uid":"1","adopted":true}}`}, ""},
		{"observed objects below need nothing from here", "", []string{`{"east":{"state":"Observed","uid":"1"}}`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var referrers []*holder
			for _, targets := range parse(t, c.referrers...) {
				referrers = append(referrers, &holder{targets: targets})
			}
			got := next(parse(t, c.current)[0], needs(referrers)).String()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatRulesANamespaceFollowsIt(t *testing.T) {
	for _, c := range []struct {
		name, kind, current, namespace, want string
	}{
		{"a limit", "LimitRange", "", `{"east":{},"west":{}}`, `{"east":{},"west":{}}`},
		{"a quota", "ResourceQuota", "", `{"east":{}}`, `{"east":{}}`},
		{"a quota that would have to be divided", "ResourceQuota", "", `{"east":{},"west":{}}`, ""},
		{"a quota that has to be divided from now on", "ResourceQuota", `{"east":{}}`, `{"east":{},"west":{}}`, `{"east":{"state":"Removing"}}`},
		{"a limit of a namespace that is not placed", "LimitRange", "", "", ""},
		{"a limit goes with the namespace", "LimitRange", `{"east":{}}`, `{"east":{"state":"Removing"}}`, `{"east":{"state":"Removing"}}`},
		{"a quota moves with the namespace", "ResourceQuota", "", `{"east":{"state":"Removing"},"west":{}}`, `{"west":{}}`},
		{"a limit that was stamped before its namespace", "LimitRange", `{"east":{}}`, "", `{"east":{}}`},
		{"a quota that was stamped before its namespace", "ResourceQuota", `{"east":{}}`, "", `{"east":{}}`},
		{"a limit with a target that the namespace gets next", "LimitRange", `{"east":{},"west":{}}`, `{"east":{}}`, `{"east":{},"west":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, _ := workload.ByKind(schema.GroupKind{Kind: c.kind})
			current := parse(t, c.current)[0]
			got := next(current, ruling(kind, current, parse(t, c.namespace)[0])).String()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokensAndTheRootCAStayUp(t *testing.T) {
	for _, c := range []struct {
		resource schema.GroupResource
		obj      metav1.ObjectMeta
		want     bool
	}{
		{workload.ConfigMaps, metav1.ObjectMeta{Name: "kube-root-ca.crt"}, true},
		{workload.ConfigMaps, metav1.ObjectMeta{Name: "app"}, false},
		{workload.Secrets, metav1.ObjectMeta{Name: "kube-root-ca.crt"}, false},
		{workload.Secrets, metav1.ObjectMeta{Name: "token", Annotations: map[string]string{"kubernetes.io/service-account.name": "robot"}}, true},
		{workload.ServiceAccounts, metav1.ObjectMeta{Name: "robot"}, true},
	} {
		if got := never(c.resource, &c.obj); got != c.want {
			t.Errorf("never(%s, %s) = %v", c.resource, c.obj.Name, got)
		}
	}
}

func TestOnlyPlacedObjectsThatReferToSomethingAreHeld(t *testing.T) {
	kind, _ := workload.ByKind(schema.GroupKind{Kind: "Pod"})
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
