package serve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/atoll-dev/atoll/pkg/names"
	"github.com/atoll-dev/atoll/test/framework/ports"
)

var (
	shop = names.Tenant{ControlPlane: "cp", Cluster: "shop"}
	bank = names.Tenant{ControlPlane: "cp", Cluster: "bank"}
)

// resolverThat starts a resolver upstream, and returns its address.
func resolverThat(t *testing.T, answer func(dns.ResponseWriter, *dns.Msg)) string {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		t.Skip("the port is taken for the other protocol:", err)
	}
	for _, s := range []*dns.Server{{PacketConn: packets, Handler: dns.HandlerFunc(answer)}, {Listener: streams, Handler: dns.HandlerFunc(answer)}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return packets.LocalAddr().String()
}

// freePort is one that nobody listens at on loopback.
func freePort(t *testing.T) int {
	t.Helper()
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return int(netip.MustParseAddrPort(address).Port())
}

func zonesOf(tenants ...names.Tenant) *zones {
	z := newZones(names.Policy{})
	for _, t := range tenants {
		z.place(t.Cluster+"-web", &placed{tenant: t, namespace: "web"})
		z.zone(t).SetService(names.Service{Namespace: "web", Name: t.Cluster, ExternalName: "www.example.com"})
	}
	return z
}

func code(t *testing.T, network string, port int, name string) string {
	t.Helper()
	q := new(dns.Msg).SetQuestion(name, dns.TypeCNAME)
	m, _, err := (&dns.Client{Net: network, Timeout: time.Second}).Exchange(q, fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "no answer"
	}
	return dns.RcodeToString[m.Rcode]
}

func TestAPortThatIsGivenToAnotherAnswersForIt(t *testing.T) {
	l := &listeners{address: "127.0.0.1", zones: zonesOf(shop, bank), resolve: newResolver(nil), open: map[int]*listener{}}
	defer l.close()
	port := freePort(t)
	for _, step := range []struct {
		ports      map[int]names.Tenant
		shop, bank string
	}{
		{map[int]names.Tenant{port: shop}, "NOERROR", "NXDOMAIN"},
		{map[int]names.Tenant{port: bank}, "NXDOMAIN", "NOERROR"},
		{nil, "no answer", "no answer"},
		{map[int]names.Tenant{port: {ControlPlane: "other", Cluster: "shop"}}, "NXDOMAIN", "NXDOMAIN"},
	} {
		if failed := l.set(t.Context(), step.ports); failed > 0 {
			t.Fatal("the port could not be opened")
		}
		for _, network := range []string{"udp", "tcp"} {
			if got := code(t, network, port, "shop.web.svc.cluster.local."); got != step.shop {
				t.Errorf("%v over %s: shop is %s, want %s", step.ports, network, got, step.shop)
			}
			if got := code(t, network, port, "bank.web.svc.cluster.local."); got != step.bank {
				t.Errorf("%v over %s: bank is %s, want %s", step.ports, network, got, step.bank)
			}
		}
	}
}

func TestANamespaceThatIsMadeAgainKeepsItsNames(t *testing.T) {
	z := zonesOf(shop)
	z.place("shop-web-2", &placed{tenant: shop, namespace: "web"})
	before, changed := z.place("shop-web", nil)
	if !changed || before == nil || *before != (placed{tenant: shop, namespace: "web"}) {
		t.Fatal(before, changed)
	}
	if _, changed := z.place("shop-web-2", &placed{tenant: shop, namespace: "web"}); changed {
		t.Error("what is as it was is said to have changed")
	}
	z.place("shop-web-2", nil)
	if len(z.byName) != 0 {
		t.Errorf("zones without names stay: %v", z.byName)
	}
}

func TestQuestionsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	release, waiting := make(chan struct{}), make(chan struct{}, tenantInFlight)
	upstream := resolverThat(t, func(w dns.ResponseWriter, q *dns.Msg) {
		if strings.HasPrefix(q.Question[0].Name, "slow") {
			waiting <- struct{}{}
			<-release
		}
		_ = w.WriteMsg(new(dns.Msg).SetReply(q))
	})
	r := newResolver([]string{upstream})
	var pending sync.WaitGroup
	for range tenantInFlight {
		pending.Go(func() { _, _ = r.ask(t.Context(), shop, "slow.example.com.", dns.TypeA) })
	}
	for range tenantInFlight {
		<-waiting
	}
	if _, err := r.ask(t.Context(), shop, "more.example.com.", dns.TypeA); !errors.Is(err, errBusy) {
		t.Errorf("one more question of the same: %v", err)
	}
	if _, err := r.ask(t.Context(), bank, "more.example.com.", dns.TypeA); err != nil {
		t.Errorf("a question of another: %v", err)
	}
	close(release)
	pending.Wait()
	if _, err := r.ask(t.Context(), shop, "more.example.com.", dns.TypeA); err != nil {
		t.Errorf("a question once others are answered: %v", err)
	}
	if len(r.tenants) != 0 || len(r.slots) != 0 {
		t.Errorf("still counted: %v, %d", r.tenants, len(r.slots))
	}
}

func TestTheNextResolverIsAskedAndLargeAnswersOverTCP(t *testing.T) {
	broken := resolverThat(t, func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeServerFailure))
	})
	other := resolverThat(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Question[0].Name = "another.example.com."
		_ = w.WriteMsg(m)
	})
	large := resolverThat(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		for i := range 200 {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, byte(i))})
		}
		if w.LocalAddr().Network() == "udp" {
			m.Truncate(512)
		}
		_ = w.WriteMsg(m)
	})
	m, err := newResolver([]string{broken, other, large}).ask(t.Context(), shop, "www.example.com.", dns.TypeA)
	if err != nil || len(m.Answer) != 200 {
		t.Fatal(m, err)
	}
	if m, err := newResolver([]string{broken, other}).ask(t.Context(), shop, "www.example.com.", dns.TypeA); err == nil {
		t.Errorf("believed: %v", m)
	}
}

func TestWhoAsksForEverAtOnceIsNotTheEndOfOthers(t *testing.T) {
	l := &listeners{address: "127.0.0.1", zones: zonesOf(shop), resolve: newResolver(nil), open: map[int]*listener{}}
	defer l.close()
	port := freePort(t)
	if l.set(t.Context(), map[int]names.Tenant{port: shop}) > 0 {
		t.Fatal("the port could not be opened")
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	// Connections that say nothing, more than may be open, and packets that are no questions.
	for range connections + 10 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	packets, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for _, hostile := range []string{"", "x", strings.Repeat("\x00", 12), strings.Repeat("\xff", 600), "\x00\x01\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01"} {
		_, _ = packets.Write([]byte(hostile))
	}
	if got := code(t, "udp", port, "shop.web.svc.cluster.local."); got != "NOERROR" {
		t.Errorf("over udp: %s", got)
	}
	// Who is silent is hung up on, and makes room.
	deadline := time.Now().Add(10 * time.Second)
	for code(t, "tcp", port, "shop.web.svc.cluster.local.") != "NOERROR" {
		if time.Now().After(deadline) {
			t.Fatal("silent connections keep others out")
		}
	}
}

func TestResolversAreAddresses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"192.0.2.1", "192.0.2.1:53"}, {"192.0.2.1:5353", "192.0.2.1:5353"}, {"fd00::1", "[fd00::1]:53"}, {"[fd00::1]", "[fd00::1]:53"}, {"[fd00::1]:54", "[fd00::1]:54"},
		{"resolver.example.com", ""}, {"x:y", ""},
	} {
		got, err := Upstreams([]string{c.in}, "")
		if c.want == "" {
			if err == nil {
				t.Errorf("%s is taken for %v", c.in, got)
			}
			continue
		}
		if err != nil || got[0] != c.want {
			t.Errorf("%s: %v %v, want %s", c.in, got, err, c.want)
		}
	}
	if _, err := Upstreams(nil, "/nowhere"); err == nil {
		t.Error("a file that is not there names resolvers")
	}
}
