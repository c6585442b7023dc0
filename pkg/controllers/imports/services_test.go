package imports

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/backends"
)

var flat = Fleet{
	"east": {Network: "n", Known: true, Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, "west": {Network: "n"}, "north": {Network: "n"},
	"quiet": {Network: "n", Silent: true}, "far": {Network: "other"}, "alone": {},
}

func service(targets string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", UID: "s", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: targets}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "api"}, Ports: []corev1.ServicePort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web")},
		}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// pod runs on a target, is ready, and has a port 8080 with the name web.
func pod(target, address string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p-" + address, Labels: map[string]string{"app": "api"},
			Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"` + target + `":{"state":"Observed","uid":"u"}}`}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// summary is the importers, as name:beside:own, and the endpoints by physical cluster.
func summary(spec *placementv1alpha1.ServiceImportSpec) (importers, endpoints []string) {
	if spec == nil {
		return nil, nil
	}
	for _, i := range spec.Importers {
		text := i.PhysicalCluster
		if i.Beside {
			text += " beside"
		}
		if i.Own {
			text += " own"
		}
		importers = append(importers, text)
	}
	for _, g := range spec.Endpoints {
		for _, e := range g.Endpoints {
			text := fmt.Sprintf("%s %s", g.PhysicalCluster, e.Address)
			for _, p := range g.Ports {
				text += fmt.Sprintf(" %s:%d", p.Name, p.Port)
			}
			if e.Hostname != "" {
				text += " " + e.Hostname
			}
			endpoints = append(endpoints, text)
		}
	}
	return importers, endpoints
}

func TestWhoImportsAServiceAndWhereItLeadsTo(t *testing.T) {
	t.Parallel()
	both := []string{"west", "east"}
	onEast, onWest := pod("east", "10.1.0.7"), pod("west", "10.2.0.7")
	for name, c := range map[string]struct {
		service              *corev1.Service
		pods                 []corev1.Pod
		present              []string
		importers, endpoints []string
	}{
		"it is elsewhere": {service(`{"east":{}}`), []corev1.Pod{onEast}, both,
			[]string{"east beside", "west own"}, []string{"east 10.1.0.7 http:8080"}},
		"the logical cluster is nowhere else": {service(`{"east":{}}`), []corev1.Pod{onEast}, []string{"east"}, nil, nil},
		"it is on both": {service(`{"east":{},"west":{}}`), []corev1.Pod{onWest, onEast}, both,
			[]string{"east beside", "west beside"}, []string{"east 10.1.0.7 http:8080", "west 10.2.0.7 http:8080"}},
		"it arrives": {service(`{"east":{},"west":{"state":"Starting"}}`), []corev1.Pod{onEast, onWest}, both,
			[]string{"east beside", "west beside own"}, []string{"east 10.1.0.7 http:8080"}},
		"it leaves": {service(`{"east":{},"west":{"state":"Draining"}}`), []corev1.Pod{onEast, onWest}, both,
			[]string{"east beside", "west beside own"}, []string{"east 10.1.0.7 http:8080"}},
		"it is removed": {service(`{"east":{},"west":{"state":"Removing"}}`), []corev1.Pod{onEast}, both,
			[]string{"east beside", "west beside own"}, []string{"east 10.1.0.7 http:8080"}},
		"it waits to come": {service(`{"east":{},"west":{"state":"Waiting"}}`), []corev1.Pod{onEast}, both,
			[]string{"east beside", "west own"}, []string{"east 10.1.0.7 http:8080"}},
		"nothing receives yet: what runs does": {service(`{"east":{"state":"Draining"},"west":{"state":"Starting"}}`), []corev1.Pod{onEast}, []string{"east", "west", "north"},
			[]string{"east beside own", "north own", "west beside own"}, []string{"east 10.1.0.7 http:8080"}},
		"of networks that do not meet": {service(`{"east":{}}`), []corev1.Pod{onEast}, []string{"east", "far", "alone"}, nil, nil},
		"it is in two networks": {service(`{"east":{},"far":{}}`), []corev1.Pod{onEast, pod("far", "10.9.0.1")}, []string{"east", "west", "far"},
			[]string{"east beside", "west own"}, []string{"east 10.1.0.7 http:8080"}},
		"no pod is ready":         {service(`{"east":{}}`), []corev1.Pod{pod("east", "10.1.0.7", unready)}, both, []string{"east beside", "west own"}, nil},
		"pods of another service": {service(`{"east":{}}`), []corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.Labels = nil })}, both, []string{"east beside", "west own"}, nil},
		"those that are not ready are published": {service(`{"east":{}}`, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }),
			[]corev1.Pod{pod("east", "10.1.0.7", unready)}, both, []string{"east beside", "west own"}, []string{"east 10.1.0.7 http:8080"}},
		"an address that no pod there has": {service(`{"east":{}}`), []corev1.Pod{pod("east", "169.254.169.254"), pod("east", "10.2.0.7")}, both, []string{"east beside", "west own"}, nil},
		"an address of nobody": {service(`{"west":{},"east":{}}`), []corev1.Pod{pod("west", "127.0.0.1"), pod("west", "169.254.169.254"), pod("west", "224.0.0.1"), pod("west", "0.0.0.0"), pod("west", "fe80::1"), onWest}, both,
			[]string{"east beside", "west beside"}, []string{"west 10.2.0.7 http:8080"}},
		"a physical cluster is silent": {service(`{"east":{},"quiet":{}}`), []corev1.Pod{onEast, pod("quiet", "10.4.0.1")}, []string{"east", "quiet"},
			[]string{"east beside", "quiet beside"}, []string{"east 10.1.0.7 http:8080"}},
		"all that has it is silent": {service(`{"quiet":{}}`), []corev1.Pod{pod("quiet", "10.4.0.1")}, []string{"east", "quiet"},
			[]string{"east own", "quiet beside"}, []string{"quiet 10.4.0.1 http:8080"}},
		"not an address": {service(`{"east":{}}`), []corev1.Pod{pod("east", "example.com")}, both, []string{"east beside", "west own"}, nil},
		"no such port":   {service(`{"east":{}}`), []corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.Spec.Containers = nil })}, both, []string{"east beside", "west own"}, []string{"east 10.1.0.7"}},
		"ports that differ": {service(`{"east":{}}`), []corev1.Pod{onEast, pod("east", "10.1.0.8", func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9090 })}, both,
			[]string{"east beside", "west own"}, []string{"east 10.1.0.7 http:8080", "east 10.1.0.8 http:9090"}},
		"a pod with a name": {service(`{"east":{}}`), []corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "api-0", "api" })}, both,
			[]string{"east beside", "west own"}, []string{"east 10.1.0.7 http:8080 api-0"}},
		"a name of another service": {service(`{"east":{}}`), []corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "api-0", "else" })}, both,
			[]string{"east beside", "west own"}, []string{"east 10.1.0.7 http:8080"}},
		"it is deleted":      {service(`{"east":{}}`, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }), nil, both, nil, nil},
		"it is not placed":   {service(``), nil, both, nil, nil},
		"all of it is going": {service(`{"east":{"state":"Removing"}}`), nil, both, nil, nil},
	} {
		importers, endpoints := summary(Decide(c.service, Sources{Pods: backends.Candidates(c.pods)}, c.present, flat))
		if diff := cmp.Diff(c.importers, importers); diff != "" {
			t.Errorf("%s: importers (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(c.endpoints, endpoints); diff != "" {
			t.Errorf("%s: endpoints (-want +got)\n%s", name, diff)
		}
	}
}

// slice is an EndpointSlice that a user wrote for the Service.
func slice(addresses []string, change ...func(*discoveryv1.EndpointSlice)) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](5432)}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// What a Service leads to that selects no pods is the same from everywhere: no network is needed.
func TestWhoImportsAServiceWithoutASelectorOrOfAName(t *testing.T) {
	t.Parallel()
	bare := func(s *corev1.Service) { s.Spec.Selector = nil }
	named := func(s *corev1.Service) { // a name has it, whatever it selects
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "db.example.com"
	}
	db := []discoveryv1.EndpointSlice{slice([]string{"192.0.2.8", "192.0.2.7"})}
	apart := []string{"far", "alone"}
	for name, c := range map[string]struct {
		service            *corev1.Service
		slices             []discoveryv1.EndpointSlice
		present            []string
		importers, written []string
	}{
		"endpoints, on one physical cluster": {service(`{"alone":{}}`, bare), db, []string{"alone"}, []string{"alone beside"}, []string{" 192.0.2.7 http:5432", " 192.0.2.8 http:5432"}},
		"endpoints, without a network":       {service(`{"alone":{}}`, bare), db, apart, []string{"alone beside", "far own"}, []string{" 192.0.2.7 http:5432", " 192.0.2.8 http:5432"}},
		"no endpoints":                       {service(`{"alone":{}}`, bare), nil, []string{"alone"}, nil, nil},
		"no endpoints, and another one":      {service(`{"alone":{}}`, bare), nil, apart, []string{"alone beside", "far own"}, nil},
		"a name":                             {service(`{"alone":{}}`, named), db, apart, []string{"alone beside", "far own"}, nil},
		"a name, on one":                     {service(`{"alone":{}}`, named), db, []string{"alone"}, nil, nil},
		"it moves":                           {service(`{"alone":{"state":"Draining"},"far":{"state":"Starting"}}`, bare), db[:0], apart, []string{"alone beside own", "far beside own"}, nil},
		"it is going":                        {service(`{"alone":{"state":"Removing"}}`, bare), db, apart, nil, nil},
		"it is not placed":                   {service(``, bare), db, apart, nil, nil},
		"it is deleted":                      {service(`{"alone":{}}`, bare, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }), db, apart, nil, nil},
		"what is not an endpoint": {service(`{"alone":{}}`, bare), []discoveryv1.EndpointSlice{
			slice([]string{"192.0.2.1"}, func(s *discoveryv1.EndpointSlice) { s.Labels = nil }),
			slice([]string{"192.0.2.2"}, func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "else" }),
			slice([]string{"192.0.2.3"}, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = ptr.To(false) }),
			slice([]string{"192.0.2.4"}, func(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = &metav1.Time{} }),
			slice([]string{"10.1.0.7"}, func(s *discoveryv1.EndpointSlice) {
				s.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: `{"alone":{"state":"Observed","uid":"u"}}`}
			}),
			slice([]string{"db.example.com"}, func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }),
		}, []string{"alone"}, nil, nil},
		"slices of one family and ports are one": {service(`{"alone":{}}`, bare), []discoveryv1.EndpointSlice{
			slice([]string{"192.0.2.9"}), slice([]string{"192.0.2.7", "192.0.2.9"}, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hostname = ptr.To("db-0") }),
			slice([]string{"2001:db8::1"}, func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }),
			slice([]string{"192.0.2.6"}, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr.To[int32](5433) }),
		}, []string{"alone"}, []string{"alone beside"}, []string{" 192.0.2.6 http:5433", " 192.0.2.7 http:5432 db-0", " 192.0.2.9 http:5432", " 2001:db8::1 http:5432"}},
	} {
		spec := Decide(c.service, Sources{Slices: c.slices}, c.present, flat)
		importers, endpoints := summary(spec)
		var written []string
		if spec != nil {
			_, written = summary(&placementv1alpha1.ServiceImportSpec{Endpoints: spec.Written})
		}
		if diff := cmp.Diff(c.importers, importers); diff != "" || endpoints != nil {
			t.Errorf("%s: importers (-want +got)\n%s%v", name, diff, endpoints)
		}
		if diff := cmp.Diff(c.written, written); diff != "" {
			t.Errorf("%s: endpoints (-want +got)\n%s", name, diff)
		}
		if spec != nil && (spec.ExternalName != "") != (c.service.Spec.Type == corev1.ServiceTypeExternalName) {
			t.Errorf("%s: the name is %q", name, spec.ExternalName)
		}
		back := slices.Clone(c.slices)
		slices.Reverse(back)
		if diff := cmp.Diff(spec, Decide(c.service, Sources{Slices: back}, c.present, flat)); diff != "" {
			t.Errorf("%s: in another order (-this +that)\n%s", name, diff)
		}
	}
}

// What elects a leader among pods writes its address into the endpoints of a Service.
func TestAnAddressThatAUserWroteIsThatOfItsPod(t *testing.T) {
	t.Parallel()
	leader := func(of ...*corev1.ObjectReference) []discoveryv1.EndpointSlice {
		return []discoveryv1.EndpointSlice{slice([]string{"10.1.0.7", "192.0.2.7"}, func(s *discoveryv1.EndpointSlice) {
			for _, ref := range of {
				s.Endpoints[0].TargetRef = ref
			}
		})}
	}
	named := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }
	other := " 192.0.2.7 http:5432"
	for name, c := range map[string]struct {
		pods   []corev1.Pod
		slices []discoveryv1.EndpointSlice
		want   []string
	}{
		"of no pod":                       {nil, leader(), []string{" 10.1.0.7 http:5432", other}},
		"of a pod":                        {[]corev1.Pod{pod("east", "10.1.0.7")}, leader(), []string{other, "east@n 10.1.0.7 http:5432"}},
		"of a pod, in a network of none":  {[]corev1.Pod{pod("alone", "10.1.0.7")}, leader(), []string{other, "alone@ 10.1.0.7 http:5432"}},
		"of a pod that is not ready":      {[]corev1.Pod{pod("east", "10.1.0.7", unready)}, leader(), []string{other, "east@n 10.1.0.7 http:5432"}},
		"of a pod that ends":              {[]corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, leader(), []string{other, "east@n 10.1.0.7 http:5432"}},
		"of a pod that has ended":         {[]corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, leader(), []string{" 10.1.0.7 http:5432", other}},
		"of a pod of whom it is not":      {[]corev1.Pod{pod("east", "10.9.0.7")}, leader(), []string{" 10.1.0.7 http:5432", other}},
		"of two":                          {[]corev1.Pod{pod("alone", "10.1.0.7"), pod("far", "10.1.0.7")}, leader(), []string{other}},
		"of two, and one is named":        {[]corev1.Pod{pod("alone", "10.1.0.7", named("a")), pod("far", "10.1.0.7", named("b"))}, leader(&corev1.ObjectReference{Kind: "Pod", Name: "b"}), []string{other, "far@other 10.1.0.7 http:5432"}},
		"of two, and a third is named":    {[]corev1.Pod{pod("alone", "10.1.0.7", named("a")), pod("far", "10.1.0.7", named("b"))}, leader(&corev1.ObjectReference{Kind: "Pod", Name: "c"}), []string{other}},
		"of one that runs in several":     {[]corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.Annotations[placementv1alpha1.TargetsAnnotation] = `{"alone":{},"east":{}}` })}, leader(), []string{other, "east@n 10.1.0.7 http:5432"}},
		"of one that runs in who knows":   {[]corev1.Pod{pod("east", "10.1.0.7", func(p *corev1.Pod) { p.Annotations[placementv1alpha1.TargetsAnnotation] = `{"alone":{},"west":{}}` })}, leader(), []string{" 10.1.0.7 http:5432", other}},
		"of a pod with an address of all": {[]corev1.Pod{pod("west", "127.0.0.1")}, []discoveryv1.EndpointSlice{slice([]string{"127.0.0.1"})}, []string{" 127.0.0.1 http:5432"}},
	} {
		spec := Decide(service(`{"alone":{}}`, func(s *corev1.Service) { s.Spec.Selector = nil }), Sources{Slices: c.slices, Homes: HomesOf(c.pods, flat)}, []string{"alone"}, flat)
		for i, g := range spec.Written {
			if g.PhysicalCluster != "" {
				spec.Written[i].PhysicalCluster += "@" + g.Network
			}
		}
		_, written := summary(&placementv1alpha1.ServiceImportSpec{Endpoints: spec.Written})
		if diff := cmp.Diff(c.want, written); diff != "" {
			t.Errorf("%s: endpoints (-want +got)\n%s", name, diff)
		}
	}
}

func TestAnImportIsTheSameInWhateverOrderPodsAreRead(t *testing.T) {
	t.Parallel()
	pods := []corev1.Pod{pod("east", "10.1.0.9"), pod("east", "10.1.0.1"), pod("north", "10.3.0.1")}
	a := Decide(service(`{"east":{},"north":{}}`), Sources{Pods: backends.Candidates(pods)}, []string{"west", "east", "north"}, flat)
	pods[0], pods[2] = pods[2], pods[0]
	b := Decide(service(`{"east":{},"north":{}}`), Sources{Pods: backends.Candidates(pods)}, []string{"north", "west", "east"}, flat)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}

func TestAnImportHasABoundAndSaysWhatItLeftOut(t *testing.T) {
	t.Parallel()
	var pods []corev1.Pod
	for i := range 1500 {
		pods = append(pods, pod("east", fmt.Sprintf("10.1.%d.%d", i/250, i%250)), pod("north", fmt.Sprintf("10.3.%d.%d", i/250, i%250)))
	}
	spec := Decide(service(`{"east":{},"north":{}}`), Sources{Pods: backends.Candidates(pods)}, []string{"west", "east"}, flat)
	by := map[string]int{}
	for _, g := range spec.Endpoints {
		by[g.PhysicalCluster] += len(g.Endpoints)
	}
	if by["east"] != 500 || by["north"] != 500 || spec.Truncated != 2000 {
		t.Errorf("%v, and %d are left out", by, spec.Truncated)
	}
	for i := range pods { // each has another port, and is a group of its own
		pods[i].Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(1000 + i), Protocol: corev1.ProtocolTCP}}}}
	}
	if spec := Decide(service(`{"east":{},"north":{}}`), Sources{Pods: backends.Candidates(pods)}, []string{"west", "east"}, flat); len(spec.Endpoints) != MaxEndpoints || spec.Truncated != 2000 {
		t.Errorf("of groups of one there are %d, and %d are left out", len(spec.Endpoints), spec.Truncated)
	}
}

func TestALogicalClusterIsReadOnlyIfItIsTwiceInANetwork(t *testing.T) {
	t.Parallel()
	for want, names := range map[bool][][]string{
		true:  {{"east", "west"}, {"far", "north", "alone", "west"}},
		false: {nil, {"east"}, {"east", "far"}, {"alone", "unknown"}},
	} {
		for _, n := range names {
			if got := flat.Joined(n); got != want {
				t.Errorf("%v: %v", n, got)
			}
		}
	}
}

// A namespace is read whole for each change of a pod in it.
func BenchmarkDecideANamespace(b *testing.B) {
	var pods []corev1.Pod
	for i := range 1000 {
		pods = append(pods, pod([]string{"east", "north"}[i%2], fmt.Sprintf("10.%d.%d.%d", 1+i%2*2, i/250, i%250)))
	}
	s := service(`{"east":{},"north":{}}`)
	for b.Loop() {
		candidates := backends.Candidates(pods)
		for range 100 {
			Decide(s, Sources{Pods: candidates}, []string{"west", "east"}, flat)
		}
	}
}

func TestImportersAndEndpointsSayTheirNetwork(t *testing.T) {
	t.Parallel()
	fleet := Fleet{"east": {Network: "n"}, "west": {Network: "n"}, "far": {Network: "m"}, "farther": {Network: "m"}}
	s := service(`{"east":{},"far":{}}`)
	spec := Decide(s, Sources{Pods: backends.Candidates([]corev1.Pod{pod("east", "10.1.0.7"), pod("far", "10.1.0.7")})}, []string{"east", "west", "far", "farther"}, fleet)
	var got []string
	for _, i := range spec.Importers {
		got = append(got, i.PhysicalCluster+"/"+i.Network)
	}
	for _, g := range spec.Endpoints {
		got = append(got, g.PhysicalCluster+"/"+g.Network+" "+g.Endpoints[0].Address)
	}
	if diff := cmp.Diff([]string{"east/n", "far/m", "farther/m", "west/n", "far/m 10.1.0.7", "east/n 10.1.0.7"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
