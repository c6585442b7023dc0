package names_test

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/atoll-dev/atoll/pkg/names"
)

func query(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	return m.SetQuestion(name, qtype)
}

func reply(z *names.Zone, q *dns.Msg, upstream *dns.Msg, tcp bool) *dns.Msg {
	return names.Reply(q, z.Answer(q.Question[0], q.Id, names.Policy{}), upstream, tcp)
}

func TestANegativeAnswerSaysHowLongItIsGood(t *testing.T) {
	for name, code := range map[string]int{"nobody.web.svc.cluster.local.": dns.RcodeNameError, "web.svc.cluster.local.": dns.RcodeSuccess} {
		m := reply(shop(), query(name, dns.TypeA), nil, false)
		if m.Rcode != code || len(m.Ns) != 1 || m.Ns[0].(*dns.SOA).Minttl != 5 || m.Ns[0].Header().Name != "cluster.local." || !m.Authoritative || !m.RecursionAvailable {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// many is a zone with a Service of more endpoints than one packet has room for.
func many(n int) *names.Zone {
	z := names.NewZone()
	var endpoints []string
	for i := range n {
		endpoints = append(endpoints, fmt.Sprintf("10.2.%d.%d", i/250, i%250+1))
	}
	z.SetService(names.ServiceFrom("web", service("many", "None", "http/tcp/80"), []*discoveryv1.EndpointSlice{slice("http/tcp/80", endpoints...)}))
	return z
}

func TestWhatDoesNotFitIsAskedForOverTCP(t *testing.T) {
	z := many(5000)
	size := func(m *dns.Msg) int {
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	for _, c := range []struct {
		edns uint16
		tcp  bool
		most int
		cut  bool
	}{{0, false, 512, true}, {1, false, 512, true}, {1000, false, 1000, true}, {65535, false, 1232, true}, {0, true, 65535, false}, {4096, true, 65535, false}} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
			q := query("many.web.svc.cluster.local.", qtype)
			if c.edns > 0 {
				q.SetEdns0(c.edns, true)
			}
			m := reply(z, q, nil, c.tcp)
			if got := size(m); got > c.most || m.Truncated != c.cut || len(m.Answer) == 0 {
				t.Errorf("%+v: %d bytes, cut %v, %d records", c, got, m.Truncated, len(m.Answer))
			}
			if opt := m.IsEdns0(); (opt != nil) != (c.edns > 0) || opt != nil && (opt.UDPSize() != 1232 || !opt.Do()) {
				t.Errorf("%+v: %v", c, opt)
			}
		}
	}
}

func TestAnAnswerOfOthersFollowsOurs(t *testing.T) {
	q := query("out.web.svc.cluster.local.", dns.TypeA)
	upstream := query("www.example.com.", dns.TypeA)
	upstream.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "www.example.com.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 77}, A: []byte{192, 0, 2, 1}}}
	m := reply(shop(), q, upstream, false)
	if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 2 || m.Answer[0].Header().Rrtype != dns.TypeCNAME || m.Answer[1].Header().Ttl != 77 || m.Authoritative || m.Id != q.Id {
		t.Error(m)
	}
	if m := reply(shop(), q, nil, false); m.Rcode != dns.RcodeServerFailure || len(m.Answer) != 0 {
		t.Errorf("silence upstream is no answer: %v", m)
	}
}

func TestWhatIsNoQuestionIsRefused(t *testing.T) {
	two := query("a.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	response := query("a.", dns.TypeA)
	response.Response = true
	version := query("a.", dns.TypeA)
	version.SetEdns0(1232, false)
	version.IsEdns0().SetVersion(1)
	for _, c := range []struct {
		query *dns.Msg
		want  int
	}{
		{new(dns.Msg), dns.RcodeFormatError}, {two, dns.RcodeFormatError}, {response, dns.RcodeFormatError}, {version, dns.RcodeBadVers},
		{new(dns.Msg).SetNotify("a."), dns.RcodeNotImplemented}, {new(dns.Msg).SetUpdate("a."), dns.RcodeNotImplemented},
	} {
		if code, ok := names.Check(c.query); ok || code != c.want {
			t.Errorf("%v: %s", c.query, dns.RcodeToString[code])
		}
	}
	if _, ok := names.Check(query("a.", dns.TypeA)); !ok {
		t.Error("a question is refused")
	}
	chaos := dns.Question{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}
	if a := shop().Answer(chaos, 0, names.Policy{}); a.Code != dns.RcodeRefused {
		t.Error(a)
	}
}

// FuzzReply feeds packets of an attacker: what is answered fits, is a message, and nothing
// of the zone or of private networks is asked of others.
func FuzzReply(f *testing.F) {
	for _, name := range []string{"api.web.svc.cluster.local.", "loop.web.svc.cluster.local.", "1.0.1.10.in-addr.arpa.", "example.com.", "pets.web.svc.cluster.local."} {
		q := query(name, dns.TypeSRV)
		q.SetEdns0(4096, true)
		b, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		q := new(dns.Msg)
		if q.Unpack(packet) != nil {
			return
		}
		if code, ok := names.Check(q); !ok {
			if _, err := names.Refuse(q, code, false).Pack(); err != nil && len(q.Question) == 1 {
				t.Fatal(err)
			}
			return
		}
		a := shop().Answer(q.Question[0], q.Id, names.Policy{})
		if a.Forward != "" && (dns.IsSubDomain("cluster.local.", a.Forward) || dns.IsSubDomain("10.in-addr.arpa.", a.Forward)) {
			t.Fatalf("%v is asked of others", q.Question)
		}
		for _, tcp := range []bool{false, true} {
			m := names.Reply(q, a, nil, tcp)
			b, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if !tcp && len(b) > 1232 {
				t.Fatalf("%d bytes over UDP", len(b))
			}
		}
	})
}
