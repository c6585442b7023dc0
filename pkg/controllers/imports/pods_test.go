package imports

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

var ranged = Fleet{
	"east": {Network: "n", Known: true, Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/48")}},
	"west": {Network: "n", Known: true, Ranges: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}, Silent: true},
	"bare": {Network: "n"},
	"far":  {Network: "m", Known: true, Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, "farther": {Network: "m"},
	"alone": {Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
}

// line is an import in short: its importers, and its pods with their labels.
func line(spec *placementv1alpha1.PodImportSpec) string {
	if spec == nil {
		return "nothing"
	}
	var parts []string
	for _, i := range spec.Importers {
		parts = append(parts, i.PhysicalCluster+"/"+i.Network)
	}
	for _, p := range spec.Pods {
		parts = append(parts, fmt.Sprintf("%s/%s %s %s", p.PhysicalCluster, p.Network, p.Labels["app"], strings.Join(p.Addresses, " ")))
	}
	if spec.Truncated > 0 {
		parts = append(parts, fmt.Sprint("without ", spec.Truncated))
	}
	return strings.Join(parts, ", ")
}

func TestWhichPodsPoliciesOnOtherPhysicalClustersMean(t *testing.T) {
	t.Parallel()
	app := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }
	}
	for name, c := range map[string]struct {
		present []string
		pods    []corev1.Pod
		want    string
	}{
		"on one of a network": {[]string{"east", "far", "alone"}, []corev1.Pod{pod("east", "10.1.0.1")}, "nothing"},
		"without pods":        {[]string{"east", "west"}, nil, "nothing"},
		"by labels, in an order": {[]string{"west", "east"}, []corev1.Pod{pod("west", "10.2.0.9"), pod("east", "10.1.0.2"), pod("east", "10.1.0.1", app("db")), pod("east", "10.1.0.0")},
			"east/n, west/n, east/n api 10.1.0.0 10.1.0.2, east/n db 10.1.0.1, west/n api 10.2.0.9"},
		"not ready, ending":     {[]string{"east", "west"}, []corev1.Pod{pod("east", "10.1.0.1", unready, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, "east/n, west/n, east/n api 10.1.0.1"},
		"ended":                 {[]string{"east", "west"}, []corev1.Pod{pod("east", "10.1.0.1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, "nothing"},
		"of both families":      {[]string{"east", "west"}, []corev1.Pod{pod("east", "10.1.0.1", func(p *corev1.Pod) { p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00:1::1"}) })}, "east/n, west/n, east/n api 10.1.0.1 fd00:1::1"},
		"addresses of others":   {[]string{"east", "west"}, []corev1.Pod{pod("east", "10.2.0.1"), pod("east", "127.0.0.1"), pod("east", "none"), pod("west", "10.2.0.3")}, "east/n, west/n, west/n api 10.2.0.3"},
		"without ranges":        {[]string{"bare", "east"}, []corev1.Pod{pod("bare", "10.9.0.1"), pod("east", "10.1.0.1")}, "bare/n, east/n, east/n api 10.1.0.1"},
		"of nobody knows where": {[]string{"east", "west"}, []corev1.Pod{pod("gone", "10.1.0.1"), pod("", "10.1.0.2")}, "nothing"},
		"in two networks":       {[]string{"east", "west", "far", "farther"}, []corev1.Pod{pod("east", "10.1.0.1"), pod("far", "10.1.0.1")}, "east/n, far/m, farther/m, west/n, east/n api 10.1.0.1, far/m api 10.1.0.1"},
		"a pod that is on two": {[]string{"east", "west"}, []corev1.Pod{pod("east", "10.1.0.1", func(p *corev1.Pod) {
			p.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{},"west":{}}`
		})}, "east/n, west/n, east/n api 10.1.0.1"},
		"in one that is no more": {[]string{"east", "west", "alone"}, []corev1.Pod{pod("alone", "10.1.0.1")}, "nothing"},
	} {
		spec := PodsOf(map[string]string{"team": "x"}, c.pods, c.present, ranged)
		if diff := cmp.Diff(c.want, line(spec)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if spec != nil && spec.NamespaceLabels["team"] != "x" {
			t.Errorf("%s: labels of the namespace %v", name, spec.NamespaceLabels)
		}
	}
}

func TestAnImportOfPodsIsBounded(t *testing.T) {
	t.Parallel()
	var pods []corev1.Pod
	for i := range MaxPods {
		pods = append(pods, pod("east", fmt.Sprintf("10.1.%d.%d", i/250, i%250)))
	}
	if spec := PodsOf(nil, pods, []string{"east", "west"}, ranged); spec.Truncated != 0 || len(spec.Pods[0].Addresses) != MaxPods {
		t.Errorf("as many as may be: %d, without %d", len(spec.Pods[0].Addresses), spec.Truncated)
	}
	pods = append(pods, pod("east", "10.1.9.1", func(p *corev1.Pod) { p.Labels = nil }), pod("east", "10.1.9.2", func(p *corev1.Pod) { p.Labels = nil }))
	if spec := PodsOf(nil, pods, []string{"east", "west"}, ranged); spec.Truncated != 2 || len(spec.Pods) != 1 || len(spec.Pods[0].Addresses) != MaxPods {
		t.Errorf("two more: %d groups, without %d", len(spec.Pods), spec.Truncated)
	}
	var large []corev1.Pod
	for i := range 10 {
		large = append(large, pod("east", fmt.Sprintf("10.1.0.%d", i), func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": fmt.Sprint(i), "x": strings.Repeat("x", 60<<10)}
		}))
	}
	if spec := PodsOf(nil, large, []string{"east", "west"}, ranged); spec.Truncated != 6 || len(spec.Pods) != 4 {
		t.Errorf("of large labels: %d groups, without %d", len(spec.Pods), spec.Truncated)
	}
}
