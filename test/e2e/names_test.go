package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// dnsNamespace is that of config/dns.
const dnsNamespace = "atoll-dns"

// namesServer is the real atoll-dns, beside a physical cluster, with the rights of its own
// account there.
type namesServer struct {
	*process.Process
	address string
	// upstream has been asked for these.
	upstream *upstream
}

// startDNS applies the manifest to a physical cluster and runs the program, as pods there
// are simulated.
func (l *lab) startDNS(t *testing.T, p *physicalCluster) *namesServer {
	t.Helper()
	ctx := context.Background()
	manifest, err := os.ReadFile(filepath.Join(process.Root(), "config", "dns", "atoll-dns.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	must(t)(p.Apply(ctx, strings.ReplaceAll(string(manifest), "IMAGE", "atoll-dns")))
	must(t)(p.Run(ctx, "-n", dnsNamespace, "rollout", "status", "deployment/atoll-dns", "--timeout=3m"))
	token := strings.TrimSpace(must(t)(p.Run(ctx, "-n", dnsNamespace, "create", "token", "atoll-dns", "--duration=2h")))
	kubeconfig := l.path(fmt.Sprintf("dns-%s-%d.kubeconfig", p.name, rand.Int32()))
	content, err := os.ReadFile(p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	k := process.Kubectl{Kubeconfig: kubeconfig}
	must(t)(k.Run(ctx, "config", "set-credentials", "atoll-dns", "--token="+token))
	must(t)(k.Run(ctx, "config", "set-context", "--current", "--user=atoll-dns"))
	s := &namesServer{
		// Ports are fixed: another address keeps tests that run at a time apart.
		address:  fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(200), rand.IntN(250), 1+rand.IntN(250)),
		upstream: startUpstream(t),
	}
	s.Process, err = process.Start(ctx, process.Spec{
		Path: process.Binary("atoll-dns"), Log: kubeconfig + ".log", Ready: "atoll-dns answers",
		Args: []string{"--kubeconfig", kubeconfig, "--namespace", dnsNamespace, "--listen-address", s.address, "--upstream", s.upstream.address},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil || t.Failed() {
			t.Logf("atoll-dns: %v\n%s", err, s.LogTail())
		}
	})
	return s
}

// offerNames has pods of a physical cluster ask atoll-dns there, until the test ends.
func (l *lab) offerNames(t *testing.T, p *physicalCluster) {
	t.Helper()
	ctx := context.Background()
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=merge", "-p", `{"spec":{"pods":{"names":{"namespace":"`+dnsNamespace+`"}}}}`))
	t.Cleanup(func() {
		must(t)(l.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=merge", "-p", `{"spec":{"pods":{"names":null}}}`))
		must(t)(p.Run(ctx, "delete", "namespace", dnsNamespace, "--timeout=3m"))
	})
	must(t)(l.root.Run(ctx, "wait", "--for=condition=PodsResolveNames", "physicalcluster/"+p.name, "--timeout=3m"))
}

// upstream is a resolver that knows one name.
type upstream struct {
	address string
	asked   chan string
}

func startUpstream(t *testing.T) *upstream {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{address: packets.LocalAddr().String(), asked: make(chan string, 1000)}
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		u.asked <- q.Question[0].Name
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Name != "www.example.com." {
			m.Rcode = dns.RcodeNameError
		} else if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 7)}}
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = packets.Close() })
	return u
}

// resolver is the stock one, which asks at a port over a network.
func (s *namesServer) resolver(network, port string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(s.address, port))
	}}
}

// lookup is what a name leads to: addresses sorted, or that there is none.
func lookup(r *net.Resolver, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, err := r.LookupHost(ctx, name)
	var dnsError *net.DNSError
	switch {
	case errors.As(err, &dnsError) && dnsError.IsNotFound:
		return "none"
	case err != nil:
		return err.Error()
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

const shopInNamespace = `
apiVersion: v1
kind: Service
metadata: {name: api, namespace: NS}
spec: {ports: [{name: http, port: 80}], selector: {app: api}}
---
apiVersion: v1
kind: Service
metadata: {name: pets, namespace: NS}
spec: {clusterIP: None, ports: [{name: http, port: 80}], selector: {app: pets}}
---
apiVersion: v1
kind: Service
metadata: {name: out, namespace: NS}
spec: {type: ExternalName, externalName: www.example.com}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: pet, namespace: NS}
spec:
  replicas: 2
  serviceName: pets
  selector: {matchLabels: {app: pets}}
  template: {metadata: {labels: {app: pets}}, spec: {containers: [{name: a, image: i}]}}
`

// Two logical clusters with equal namespaces and names, on one physical cluster: each is
// answered with its own, over both protocols, and with nothing of the other.
func TestPodsOfALogicalClusterResolveItsNamesAndNoOthers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	if err := process.Missing("atoll-dns"); err != nil {
		t.Skip(err)
	}
	l := newLab(t, "east")
	s := l.startDNS(t, l.east)
	l.offerNames(t, l.east)

	tenants := []process.Kubectl{l.newCluster(t), l.newCluster(t)}
	for i, k := range tenants {
		for _, namespace := range []string{"web", fmt.Sprintf("only-%d", i)} {
			must(t)(k.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+", annotations: {placement.atoll.dev/cluster: east}}\n"))
			must(t)(k.Apply(ctx, strings.ReplaceAll(shopInNamespace, "NS", namespace)))
		}
	}
	ports := make([]string, len(tenants))
	for i, k := range tenants {
		must(t)(k.Run(ctx, "-n", "web", "rollout", "status", "statefulset/pet", "--timeout=3m"))
		must(t)(k.Run(ctx, "-n", fmt.Sprintf("only-%d", i), "rollout", "status", "statefulset/pet", "--timeout=3m"))
		ports[i] = l.portOf(t, k, s)
	}
	if ports[0] == ports[1] {
		t.Fatalf("both logical clusters have the port %s", ports[0])
	}

	for i, k := range tenants {
		other := fmt.Sprintf("only-%d", 1-i)
		below := l.homeOf(t, k, "web").below()
		get := func(args ...string) string {
			return strings.TrimSpace(must(t)(below.Run(ctx, append([]string{"get"}, args...)...)))
		}
		api, pet0, pet1 := get("service", "api", "-o", "jsonpath={.spec.clusterIP}"), get("pod", "pet-0", "-o", "jsonpath={.status.podIP}"), get("pod", "pet-1", "-o", "jsonpath={.status.podIP}")
		pets := []string{pet0, pet1}
		slices.Sort(pets)
		for _, network := range []string{"udp", "tcp"} {
			r := s.resolver(network, ports[i])
			for name, want := range map[string]string{
				"api.web.svc.cluster.local.":              api,
				"API.Web.svc.cluster.local.":              api,
				"pets.web.svc.cluster.local.":             strings.Join(pets, " "),
				"pet-1.pets.web.svc.cluster.local.":       pet1,
				"out.web.svc.cluster.local.":              "192.0.2.7",
				"www.example.com.":                        "192.0.2.7",
				"nobody.example.com.":                     "none",
				"nobody.web.svc.cluster.local.":           "none",
				"api." + other + ".svc.cluster.local.":    "none",
				"kube-dns.kube-system.svc.cluster.local.": "none",
				"atoll-dns.atoll-dns.svc.cluster.local.":  "none",
			} {
				// A new endpoint is known a moment after its pod is ready.
				eventually(t, func() error {
					if got := lookup(r, name); got != want {
						return fmt.Errorf("%s over %s: %s, want %s", name, network, got, want)
					}
					return nil
				})
			}
			_, records, err := r.LookupSRV(ctx, "http", "tcp", "pets.web.svc.cluster.local.")
			var targets []string
			for _, record := range records {
				targets = append(targets, fmt.Sprintf("%s:%d", record.Target, record.Port))
			}
			slices.Sort(targets)
			if diff := cmp.Diff([]string{"pet-0.pets.web.svc.cluster.local.:80", "pet-1.pets.web.svc.cluster.local.:80"}, targets); err != nil || diff != "" {
				t.Errorf("SRV over %s: %v %s", network, err, diff)
			}
			if names, err := r.LookupAddr(ctx, pet0); err != nil || !slices.Equal(names, []string{"pet-0.pets.web.svc.cluster.local."}) {
				t.Errorf("PTR over %s: %v %v", network, names, err)
			}
			// The address of another tenant's Service has no name here.
			theirs := must(t)(l.homeOf(t, tenants[1-i], "web").below().Run(ctx, "get", "service", "api", "-o", "jsonpath={.spec.clusterIP}"))
			if names, err := r.LookupAddr(ctx, strings.TrimSpace(theirs)); err == nil {
				t.Errorf("the address of another tenant has the names %v", names)
			}
		}
	}
	for len(s.upstream.asked) > 0 {
		if name := <-s.upstream.asked; strings.HasSuffix(strings.ToLower(name), "cluster.local.") || strings.HasSuffix(name, ".10.in-addr.arpa.") {
			t.Errorf("%s was asked of a resolver upstream", name)
		}
	}
}

// portOf follows the nameserver of a pod to the port of its logical cluster, as kube-proxy
// does, and checks what else the pod asks with.
func (l *lab) portOf(t *testing.T, k process.Kubectl, s *namesServer) string {
	t.Helper()
	ctx := context.Background()
	below := l.homeOf(t, k, "web").below()
	pod := must(t)(below.Run(ctx, "get", "pod", "pet-0", "-o", "jsonpath={.spec.dnsPolicy} {.spec.dnsConfig.searches} {.spec.dnsConfig.options} {.spec.dnsConfig.nameservers[0]}"))
	const want = `None ["web.svc.cluster.local","svc.cluster.local","cluster.local"] [{"name":"ndots","value":"5"}] `
	if !strings.HasPrefix(pod, want) {
		t.Fatalf("the pod has %s", pod)
	}
	if above := must(t)(k.Run(ctx, "-n", "web", "get", "pod", "pet-0", "-o", "jsonpath={.spec.dnsPolicy} {.spec.dnsConfig}")); above != "ClusterFirst " {
		t.Errorf("the logical cluster shows %q", above)
	}
	return l.portAt(t, l.east, below)
}
