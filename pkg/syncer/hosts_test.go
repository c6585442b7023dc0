package syncer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var ingresses = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}

// ingressWith is an Ingress with rules for some hosts.
func ingressWith(hosts ...string) *unstructured.Unstructured {
	var rules []any
	for _, h := range hosts {
		rules = append(rules, map[string]any{"host": h})
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"rules": rules}}}
}

// ingressBelow is the copy of one of a logical cluster.
func ingressBelow(cluster string, uid types.UID, made int64, hosts ...string) *unstructured.Unstructured {
	obj := ingressWith(hosts...)
	obj.SetName("web")
	obj.SetUID(uid)
	obj.SetCreationTimestamp(metav1.Unix(made, 0))
	mark := Mark{ControlPlane: controlPlane, Cluster: logicalcluster.Name(cluster), Namespace: "shop", Name: "web", UID: uid}
	labels, annotations := map[string]any{}, map[string]any{}
	mark.put(ingresses, labels, annotations)
	setNested(obj.Object, labels, "metadata", "labels")
	setNested(obj.Object, annotations, "metadata", "annotations")
	return obj
}

func TestHostsAreThoseOfRulesAndCertificates(t *testing.T) {
	t.Parallel()
	obj := ingressWith("B.example.com", "", "a.example.com")
	setNested(obj.Object, []any{map[string]any{"hosts": []any{"a.example.com", "c.example.com", 7}}, map[string]any{}, "odd"}, "spec", "tls")
	if diff := cmp.Diff([]string{AnyHost, "a.example.com", "b.example.com", "c.example.com"}, Hosts(obj)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	byDefault := ingressWith("a.example.com")
	setNested(byDefault.Object, map[string]any{"service": map[string]any{"name": "web"}}, "spec", "defaultBackend")
	if diff := cmp.Diff([]string{AnyHost, "a.example.com"}, Hosts(byDefault)); diff != "" {
		t.Errorf("with a default backend (-want +got)\n%s", diff)
	}
	for _, odd := range []any{nil, "odd", []any{}, map[string]any{"rules": "odd", "tls": map[string]any{}}} {
		if hosts := Hosts(&unstructured.Unstructured{Object: map[string]any{"spec": odd}}); len(hosts) > 0 {
			t.Errorf("%v has %v", odd, hosts)
		}
	}
}

func TestAWildcardContestsOneLabel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a.example.com", "a.example.com", true},
		{"a.example.com", "b.example.com", false},
		{"a.example.com", "*.example.com", true},
		{"*.example.com", "*.example.com", true},
		{"a.b.example.com", "*.example.com", false},
		{"example.com", "*.example.com", false},
		{"*.b.example.com", "*.example.com", false},
		{"com", "example", false},
		{AnyHost, AnyHost, true},
		{AnyHost, "a.example.com", false},
		{AnyHost, "*.example.com", false},
		{AnyHost, "example", false},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := ContestedHosts(pair[0], pair[1]); got != c.want {
				t.Errorf("%v: %v", pair, got)
			}
			indexed := map[string]bool{}
			for _, value := range HostIndex(ingressWith(pair[0])) {
				indexed[value] = true
			}
			found := false
			for _, query := range HostQueries(pair[1]) {
				found = found || indexed[query]
			}
			if c.want && !found {
				t.Errorf("%v: the index does not find it", pair)
			}
		}
	}
}

func TestAHostBelongsToTheLogicalClusterThatHasItFirst(t *testing.T) {
	t.Parallel()
	gone := ingressBelow("theirs", "t", 1, "a.example.com")
	gone.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(2, 0)})
	foreign := ingressWith("a.example.com")
	for name, c := range map[string]struct {
		own    *unstructured.Unstructured
		others []*unstructured.Unstructured
		want   string
	}{
		"nobody has it":                            {nil, nil, ""},
		"another logical cluster has it":           {nil, []*unstructured.Unstructured{ingressBelow("theirs", "t", 1, "x.example.com", "A.example.com")}, "a.example.com"},
		"it has all of the domain":                 {nil, []*unstructured.Unstructured{ingressBelow("theirs", "t", 1, "*.example.com")}, "a.example.com"},
		"it has another one":                       {nil, []*unstructured.Unstructured{ingressBelow("theirs", "t", 1, "b.example.com")}, ""},
		"another Ingress of our own has it":        {nil, []*unstructured.Unstructured{ingressBelow("ours", "o", 1, "a.example.com")}, ""},
		"it is on its way out":                     {nil, []*unstructured.Unstructured{gone}, ""},
		"somebody else's has it":                   {nil, []*unstructured.Unstructured{foreign}, ""},
		"ours is older, and did not ask for it":    {ingressBelow("ours", "o", 1, "b.example.com"), []*unstructured.Unstructured{ingressBelow("theirs", "t", 9, "a.example.com")}, "a.example.com"},
		"both have it, ours was first":             {ingressBelow("ours", "o", 1, "a.example.com"), []*unstructured.Unstructured{ingressBelow("theirs", "t", 9, "a.example.com")}, ""},
		"both have it, theirs was first":           {ingressBelow("ours", "o", 9, "a.example.com"), []*unstructured.Unstructured{ingressBelow("theirs", "t", 1, "a.example.com")}, "a.example.com"},
		"both have it since the same second":       {ingressBelow("ours", "o", 1, "a.example.com"), []*unstructured.Unstructured{ingressBelow("theirs", "t", 1, "a.example.com")}, ""},
		"and the other one has the smaller UID":    {ingressBelow("ours", "z", 1, "a.example.com"), []*unstructured.Unstructured{ingressBelow("theirs", "t", 1, "a.example.com")}, "a.example.com"},
		"one of several others had it before ours": {ingressBelow("ours", "o", 5, "a.example.com"), []*unstructured.Unstructured{ingressBelow("x", "x", 9, "a.example.com"), ingressBelow("y", "y", 1, "a.example.com")}, "a.example.com"},
	} {
		if got := TakenHost(ingresses, "ours", []string{"a.example.com"}, c.own, c.others); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Controllers merge rules for any host into one server: a later one would take paths of
// the first.
func TestRequestsThatNobodyNamesBelongToOneLogicalCluster(t *testing.T) {
	t.Parallel()
	theirs := ingressBelow("theirs", "t", 1, "")
	for name, c := range map[string]struct {
		own  *unstructured.Unstructured
		asks *unstructured.Unstructured
		want string
	}{
		"another rule for any host":   {nil, ingressWith(""), AnyHost},
		"a rule for a host":           {nil, ingressWith("a.example.com"), ""},
		"ours was first":              {ingressBelow("ours", "o", 0, ""), ingressWith(""), ""},
		"ours had a host until today": {ingressBelow("ours", "o", 0, "a.example.com"), ingressWith("a.example.com", ""), AnyHost},
	} {
		if got := TakenHost(ingresses, "ours", Hosts(c.asks), c.own, []*unstructured.Unstructured{theirs}); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	in := situation{logical: "live", copy: "Synced", physical: "old~"}.input()
	in.HostTaken = AnyHost
	if actions := Plan(in); len(actions) != 1 || actions[0].Copy == nil || !strings.Contains(actions[0].Copy.Status.Message, "name hosts in all rules") {
		t.Errorf("%+v", actions)
	}
}

func TestAnIngressWithATakenHostFailsAndStaysAsItIs(t *testing.T) {
	t.Parallel()
	for _, physical := range []string{"", "old~"} {
		in := situation{logical: "live", copy: "Synced", physical: physical}.input()
		if physical == "" {
			in.Copy.Status.PhysicalUID = ""
		}
		in.HostTaken = "a.example.com"
		if got, want := describe(Plan(in)), "WriteCopy Failed/"+ReasonHostTaken; got != want {
			t.Errorf("below %q: %s, want %s", physical, got, want)
		}
	}
}
