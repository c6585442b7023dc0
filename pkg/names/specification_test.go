package names_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/names"
)

// slice has endpoints, each "ADDRESS[ HOSTNAME][ !]", where ! is not ready, on ports
// "NAME/PROTOCOL/NUMBER".
func slice(ports string, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	for _, p := range servicePorts(ports) {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr.To(p.Name), Protocol: ptr.To(p.Protocol), Port: ptr.To(p.Port)})
	}
	for _, text := range endpoints {
		e := discoveryv1.Endpoint{}
		for i, word := range strings.Fields(text) {
			switch {
			case i == 0:
				e.Addresses = []string{word}
				if strings.Contains(word, ":") {
					s.AddressType = discoveryv1.AddressTypeIPv6
				}
			case word == "!":
				e.Conditions.Ready = ptr.To(false)
			default:
				e.Hostname = ptr.To(word)
			}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func servicePorts(text string) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, p := range strings.Fields(text) {
		parts := strings.Split(p, "/")
		var number int32
		_, _ = fmt.Sscan(parts[2], &number)
		out = append(out, corev1.ServicePort{Name: parts[0], Protocol: corev1.Protocol(strings.ToUpper(parts[1])), Port: number})
	}
	return out
}

func service(name, clusterIPs, ports string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Ports = servicePorts(ports)
	s.Spec.ClusterIPs = strings.Fields(clusterIPs)
	if len(s.Spec.ClusterIPs) > 0 {
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	}
	return s
}

func external(name, to string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, to
	return s
}

// shop is the logical cluster that is asked.
func shop() *names.Zone {
	z := names.NewZone()
	z.SetServer(names.Server{Host: "192.168.9.9", Port: 6443})
	set := func(namespace string, s *corev1.Service, slices ...*discoveryv1.EndpointSlice) {
		z.SetService(names.ServiceFrom(namespace, s, slices))
	}
	z.SetNamespace("empty")
	set("web", service("api", "10.96.0.10", "http/tcp/80 dns/udp/53 /tcp/9999"))
	set("web", service("dual", "10.96.0.11 fd00::11", "http/tcp/80"))
	set("web", service("pets", "None", "http/tcp/8080"),
		slice("http/tcp/8081", "10.1.0.1 pet-0", "10.1.0.2 pet-1", "10.1.0.3 pet-2 !", "10.1.0.4"),
		slice("http/tcp/8081", "fd01::4"))
	early := service("early", "None", "http/tcp/8080")
	early.Spec.PublishNotReadyAddresses = true
	set("web", early, slice("http/tcp/8081", "10.1.0.3 pet-2 !"))
	set("web", service("none", "None", "http/tcp/8080"))
	set("web", service("unready", "None", "http/tcp/8080"), slice("http/tcp/80", "10.1.0.5 !"))
	set("web", external("out", "www.Example.com"))
	set("web", external("in", "api.web.svc.cluster.local"))
	set("web", external("chain", "in.web.svc.cluster.local."))
	set("web", external("loop", "loop.web.svc.cluster.local"))
	set("web", external("nowhere", "db.other.svc.cluster.local"))
	set("data", service("db", "10.96.0.20", "sql/tcp/5432"))
	return z
}

// said is an answer as text: the code if it is no success, records, and where it is
// forwarded to.
func said(a names.Answer) []string {
	var out []string
	if a.Code != dns.RcodeSuccess {
		out = append(out, dns.RcodeToString[a.Code])
	}
	for _, rr := range a.Records {
		h := rr.Header()
		out = append(out, strings.TrimSpace(h.Name+" "+dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String())))
	}
	if a.Forward != "" {
		out = append(out, "forward "+a.Forward)
	}
	return out
}

func ask(z *names.Zone, question string) names.Answer {
	name, qtype, _ := strings.Cut(question, " ")
	return z.Answer(dns.Question{Name: name, Qtype: dns.StringToType[qtype], Qclass: dns.ClassINET}, 0, names.Policy{Internal: []string{"corp.example"}})
}

func TestNamesAreThoseOfTheKubernetesSpecification(t *testing.T) {
	const z = ".svc.cluster.local."
	for question, want := range map[string][]string{
		// 2.2
		"dns-version.cluster.local. TXT": {`dns-version.cluster.local. TXT "1.1.0"`},
		// 2.3.1
		"api.web" + z + " A":                          {"api.web" + z + " A 10.96.0.10"},
		"api.web" + z + " AAAA":                       nil,
		"dual.web" + z + " A":                         {"dual.web" + z + " A 10.96.0.11"},
		"dual.web" + z + " AAAA":                      {"dual.web" + z + " AAAA fd00::11"},
		"kubernetes.default" + z + " A":               {"kubernetes.default" + z + " A 192.168.9.9"},
		"API.Web.SVC.Cluster.Local. A":                {"API.Web.SVC.Cluster.Local. A 10.96.0.10"},
		"api.web" + z + " MX":                         nil,
		"_https._tcp.kubernetes.default" + z + " SRV": {"_https._tcp.kubernetes.default" + z + " SRV 0 100 6443 kubernetes.default" + z},
		// 2.3.2
		"_http._tcp.api.web" + z + " SRV": {"_http._tcp.api.web" + z + " SRV 0 100 80 api.web" + z},
		"_dns._udp.api.web" + z + " SRV":  {"_dns._udp.api.web" + z + " SRV 0 100 53 api.web" + z},
		"_DNS._UDP.api.web" + z + " SRV":  {"_DNS._UDP.api.web" + z + " SRV 0 100 53 api.web" + z},
		"_dns._tcp.api.web" + z + " SRV":  {"NXDOMAIN"},
		"_._tcp.api.web" + z + " SRV":     {"NXDOMAIN"}, // a port without a name
		"_http._tcp.api.web" + z + " A":   nil,
		"_tcp.api.web" + z + " A":         nil,
		"_sctp.api.web" + z + " A":        {"NXDOMAIN"},
		// 2.3.3
		"10.0.96.10.in-addr.arpa. PTR":  {"10.0.96.10.in-addr.arpa. PTR api.web" + z},
		"9.9.168.192.in-addr.arpa. PTR": {"9.9.168.192.in-addr.arpa. PTR kubernetes.default" + z},
		"1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.D.f.ip6.arpa. PTR": {"1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.D.f.ip6.arpa. PTR dual.web" + z},
		// 2.4.1
		"pets.web" + z + " A":          {"pets.web" + z + " A 10.1.0.1", "pets.web" + z + " A 10.1.0.2", "pets.web" + z + " A 10.1.0.4"},
		"pets.web" + z + " AAAA":       {"pets.web" + z + " AAAA fd01::4"},
		"pet-1.pets.web" + z + " A":    {"pet-1.pets.web" + z + " A 10.1.0.2"},
		"pet-2.pets.web" + z + " A":    {"NXDOMAIN"}, // not ready
		"10-1-0-4.pets.web" + z + " A": {"10-1-0-4.pets.web" + z + " A 10.1.0.4"},
		"pet-2.early.web" + z + " A":   {"pet-2.early.web" + z + " A 10.1.0.3"},
		"early.web" + z + " A":         {"early.web" + z + " A 10.1.0.3"},
		"none.web" + z + " A":          {"NXDOMAIN"},
		"unready.web" + z + " A":       {"NXDOMAIN"},
		// 2.4.2
		"_http._tcp.pets.web" + z + " SRV": {
			"_http._tcp.pets.web" + z + " SRV 0 25 8081 pet-0.pets.web" + z, "_http._tcp.pets.web" + z + " SRV 0 25 8081 pet-1.pets.web" + z,
			"_http._tcp.pets.web" + z + " SRV 0 25 8081 10-1-0-4.pets.web" + z, "_http._tcp.pets.web" + z + " SRV 0 25 8081 fd01--4.pets.web" + z,
		},
		// 2.4.3
		"1.0.1.10.in-addr.arpa. PTR": {"1.0.1.10.in-addr.arpa. PTR pet-0.pets.web" + z},
		"3.0.1.10.in-addr.arpa. PTR": {"3.0.1.10.in-addr.arpa. PTR pet-2.early.web" + z},
		// 2.5
		"out.web" + z + " A":     {"out.web" + z + " CNAME www.example.com.", "forward www.example.com."},
		"out.web" + z + " CNAME": {"out.web" + z + " CNAME www.example.com."},
		"in.web" + z + " A":      {"in.web" + z + " CNAME api.web" + z, "api.web" + z + " A 10.96.0.10"},
		"chain.web" + z + " A":   {"chain.web" + z + " CNAME in.web" + z, "in.web" + z + " CNAME api.web" + z, "api.web" + z + " A 10.96.0.10"},
		"loop.web" + z + " A":    {"SERVFAIL"},
		"nowhere.web" + z + " A": {"NXDOMAIN", "nowhere.web" + z + " CNAME db.other" + z},
		// 2.6
		"10-1-2-3.web.pod.cluster.local. A":   {"10-1-2-3.web.pod.cluster.local. A 10.1.2.3"},
		"fd00--1.web.pod.cluster.local. AAAA": {"fd00--1.web.pod.cluster.local. AAAA fd00::1"},
		"10-1-2-3.other.pod.cluster.local. A": {"NXDOMAIN"},
		"10-1-2-300.web.pod.cluster.local. A": {"NXDOMAIN"},
		// What is there without records, and what is not there.
		"cluster.local. A":           nil,
		"svc.cluster.local. A":       nil,
		"web" + z + " A":             nil,
		"empty" + z + " A":           nil,
		"default" + z + " A":         nil,
		"other" + z + " A":           {"NXDOMAIN"},
		"db.web" + z + " A":          {"NXDOMAIN"},
		"db.data" + z + " A":         {"db.data" + z + " A 10.96.0.20"},
		"x.y.z.api.web" + z + " A":   {"NXDOMAIN"},
		"any.cluster.local. A":       {"NXDOMAIN"},
		"*.web" + z + " A":           {"NXDOMAIN"},
		"*.*.svc.cluster.local. SRV": {"NXDOMAIN"},
		// What nobody else is asked for.
		"db.data.svc.corp.example. A":   {"NXDOMAIN"},
		"200.0.96.10.in-addr.arpa. PTR": {"NXDOMAIN"},
		"1.0.64.100.in-addr.arpa. PTR":  {"NXDOMAIN"},
		"10.in-addr.arpa. SOA":          {"NXDOMAIN"},
		"in-addr.arpa. NS":              {"NXDOMAIN"},
		"ip6.arpa. PTR":                 {"NXDOMAIN"},
		"cluster.local. AXFR":           {"REFUSED"},
		"example.com. ANY":              {"REFUSED"},
		// What others are asked for.
		"www.example.com. A":        {"forward www.example.com."},
		"Notcluster.local. A":       {"forward notcluster.local."},
		"8.8.8.8.in-addr.arpa. PTR": {"forward 8.8.8.8.in-addr.arpa."},
		". NS":                      {"forward ."},
	} {
		if diff := cmp.Diff(want, said(ask(shop(), question))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", question, diff)
		}
	}
}

func TestALogicalClusterHasNoNamesOfAnother(t *testing.T) {
	other := names.NewZone()
	other.SetService(names.ServiceFrom("web", service("api", "10.96.7.7", "http/tcp/80"), nil))
	for question, want := range map[string][]string{
		"api.web.svc.cluster.local. A":               {"api.web.svc.cluster.local. A 10.96.7.7"},
		"db.data.svc.cluster.local. A":               {"NXDOMAIN"},
		"pets.web.svc.cluster.local. A":              {"NXDOMAIN"},
		"data.svc.cluster.local. A":                  {"NXDOMAIN"},
		"10.0.96.10.in-addr.arpa. PTR":               {"NXDOMAIN"},
		"kubernetes.default.svc.cluster.local. A":    {"NXDOMAIN"},
		"_http._tcp.pets.web.svc.cluster.local. SRV": {"NXDOMAIN"},
	} {
		if diff := cmp.Diff(want, said(ask(other, question))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", question, diff)
		}
	}
}

func TestWhatIsRemovedHasNoNameAnyMore(t *testing.T) {
	z := shop()
	z.DeleteService("web", "pets")
	z.DeleteNamespace("data")
	z.SetService(names.ServiceFrom("web", service("api", "10.96.0.99", "http/tcp/80"), nil))
	z.SetServer(names.Server{})
	for question, want := range map[string][]string{
		"pets.web.svc.cluster.local. A":           {"NXDOMAIN"},
		"1.0.1.10.in-addr.arpa. PTR":              {"NXDOMAIN"},
		"20.0.96.10.in-addr.arpa. PTR":            {"NXDOMAIN"},
		"data.svc.cluster.local. A":               {"NXDOMAIN"},
		"10.0.96.10.in-addr.arpa. PTR":            {"NXDOMAIN"},
		"99.0.96.10.in-addr.arpa. PTR":            {"99.0.96.10.in-addr.arpa. PTR api.web.svc.cluster.local."},
		"kubernetes.default.svc.cluster.local. A": {"NXDOMAIN"},
		"9.9.168.192.in-addr.arpa. PTR":           {"NXDOMAIN"},
	} {
		if diff := cmp.Diff(want, said(ask(z, question))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", question, diff)
		}
	}
}

func TestAServerThatIsReachedByANameIsACanonicalName(t *testing.T) {
	z := names.NewZone()
	z.SetServer(names.Server{Host: "atoll.atoll-system.svc.cluster.local", Port: 443})
	for question, want := range map[string][]string{
		"kubernetes.default.svc.cluster.local. A": {"kubernetes.default.svc.cluster.local. CNAME atoll.atoll-system.svc.cluster.local.", "forward atoll.atoll-system.svc.cluster.local."},
		// The admin named this host, and no other of the physical cluster.
		"atoll.atoll-system.svc.cluster.local. A":   {"forward atoll.atoll-system.svc.cluster.local."},
		"other.atoll-system.svc.cluster.local. A":   {"NXDOMAIN"},
		"x.atoll.atoll-system.svc.cluster.local. A": {"NXDOMAIN"},
	} {
		if diff := cmp.Diff(want, said(ask(z, question))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", question, diff)
		}
	}
}

func TestNoServiceOfATenantReplacesTheServer(t *testing.T) {
	z := shop()
	z.SetService(names.ServiceFrom("default", service("kubernetes", "10.96.6.6", "https/tcp/443"), nil))
	if diff := cmp.Diff([]string{"kubernetes.default.svc.cluster.local. A 192.168.9.9"}, said(ask(z, "kubernetes.default.svc.cluster.local. A"))); diff != "" {
		t.Error(diff)
	}
}

func TestAllAddressesAreFirstAtSomeTime(t *testing.T) {
	first := map[string]bool{}
	for id := range uint16(30) {
		a := shop().Answer(dns.Question{Name: "pets.web.svc.cluster.local.", Qtype: dns.TypeA, Qclass: dns.ClassINET}, id, names.Policy{})
		if len(a.Records) != 3 {
			t.Fatal(a.Records)
		}
		first[a.Records[0].(*dns.A).A.String()] = true
	}
	if len(first) != 3 {
		t.Error(first)
	}
}

func TestAnEndpointInTwoSlicesIsOne(t *testing.T) {
	s := names.ServiceFrom("web", service("pets", "None", "http/tcp/80"), []*discoveryv1.EndpointSlice{
		slice("http/tcp/80", "10.1.0.2 b", "10.1.0.1 a"), slice("http/tcp/80", "10.1.0.1 a"),
	})
	want := []names.Endpoint{
		{Address: netip.MustParseAddr("10.1.0.1"), Hostname: "a", Ports: []names.Port{{Name: "http", Protocol: "tcp", Number: 80}}},
		{Address: netip.MustParseAddr("10.1.0.2"), Hostname: "b", Ports: []names.Port{{Name: "http", Protocol: "tcp", Number: 80}}},
	}
	if diff := cmp.Diff(want, s.Endpoints, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSortedFunc(s.Endpoints, func(a, b names.Endpoint) int { return a.Address.Compare(b.Address) }) {
		t.Error(s.Endpoints)
	}
}
