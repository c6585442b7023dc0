package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/test/framework/etcd"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// shutdownDelay is longer than a balancer takes to notice that a server is not ready, on a
// machine so busy that it waits for an answer until it waits no longer.
const shutdownDelay = readyTimeout + 5*readyInterval

// serverPair is two servers over one etcd, with the same keys, behind a balancer.
type serverPair struct {
	lab
	url      string
	servers  [2]*process.Process
	balancer *balancer
}

func startServerPair(t *testing.T) *serverPair {
	t.Helper()
	ctx := context.Background()
	p := &serverPair{lab: lab{dir: t.TempDir()}}
	addresses := make([]string, 3)
	for i := range addresses {
		var err error
		if addresses[i], err = ports.Address("127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	p.url = "https://" + addresses[2]
	database := etcd.Start(t)
	for i := range p.servers {
		name := fmt.Sprint("server-", i)
		if i > 0 {
			if err := os.CopyFS(p.path(name, "pki"), os.DirFS(p.path("server-0", "pki"))); err != nil {
				t.Fatal(err)
			}
		}
		server, err := process.Start(ctx, process.Spec{
			Path: process.Binary("atoll"),
			Args: []string{"start", "--data-dir", p.path(name), "--listen", addresses[i], "--etcd-servers", database,
				"--external-url", p.url, "--shutdown-delay-duration", shutdownDelay.String(), "--logical-cluster", "shop"},
			Log: p.path(name + ".log"), Ready: "atoll serves at ",
		})
		if err != nil {
			t.Fatal(err)
		}
		p.servers[i] = server
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("end of the log of %s:\n%s", name, server.LogTail())
			}
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	p.balancer = balance(t, addresses[2], addresses[:2]...)
	for i := range p.servers {
		p.awaitBalancer(t, i, true)
	}
	p.root = process.Kubectl{Kubeconfig: p.path("server-0", "admin.kubeconfig"), Context: "root"}
	return p
}

// client sends one request after the other through the balancer, until stop, and has what
// went wrong.
type client struct {
	what     string
	requests int
	failures []string
}

// ask sends requests until ctx ends: each makes an object and reads it.
func (c *client) ask(ctx context.Context, config *rest.Config, url string) {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		c.failures = append(c.failures, err.Error())
		return
	}
	configs := url + "/clusters/shop/api/v1/namespaces/default/configmaps"
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(c.what, " ", "-"), i)
		c.send(transport, http.MethodPost, configs, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name))
		c.send(transport, http.MethodGet, configs+"/"+name, "")
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// send waits for the answer, however long that takes: what began is not given up.
func (c *client) send(through *http.Client, method, url, body string) {
	c.requests++
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := through.Do(req)
	if err == nil {
		defer resp.Body.Close()
		answer, readErr := io.ReadAll(resp.Body)
		if err = readErr; err == nil && resp.StatusCode/100 != 2 {
			err = fmt.Errorf("%s: %s", resp.Status, answer)
		}
	}
	if err != nil {
		c.failures = append(c.failures, fmt.Sprintf("request %d, %s: %v", c.requests, method, err))
	}
}

// counting counts the requests of clients that keep their connections, and of clients that
// make one for each request, while do runs.
func (p *serverPair) counting(t *testing.T, do func()) []*client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.path("server-0", "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var clients []*client
	for i := range 4 {
		config, c := rest.CopyConfig(config), &client{what: fmt.Sprint("kept ", i)}
		config.Dial = (&net.Dialer{Timeout: time.Minute}).DialContext // and so a transport of its own
		if i%2 == 1 {
			c.what = fmt.Sprint("new ", i)
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return closing{rt} })
		}
		clients = append(clients, c)
		running.Go(func() { c.ask(ctx, config, p.url) })
	}
	do()
	stop()
	running.Wait()
	for _, c := range clients {
		t.Logf("%s: %d requests, %d failed", c.what, c.requests, len(c.failures))
	}
	return clients
}

// closing asks for each connection to be closed after one request.
type closing struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c closing) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Close = true
	return c.RoundTripper.RoundTrip(req)
}

func TestServersAreReplacedOneAfterTheOtherWithoutAFailedRequest(t *testing.T) {
	long(t)
	ctx := context.Background()
	p := startServerPair(t)
	below, err := p.startPhysical(ctx, "east")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := below.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := p.register(ctx, below.name, below.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	must(t)(p.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/east"))
	shop := process.Kubectl{Kubeconfig: p.path("server-0", "admin.kubeconfig"), Context: "shop"}
	must(t)(shop.Apply(ctx, deployment("web", 2)))
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))

	for _, c := range p.counting(t, func() {
		for i, server := range p.servers {
			if err := server.Stop(); err != nil {
				t.Errorf("stopping server %d: %v", i, err)
			}
			must(t)(shop.Run(ctx, "scale", "deployment/web", fmt.Sprint("--replicas=", 3+i)))
			must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
			restart(t, server)
			p.awaitBalancer(t, i, true)
		}
	}) {
		if len(c.failures) > 0 || c.requests < 20 {
			t.Errorf("%s: of %d requests failed: %s", c.what, c.requests, strings.Join(c.failures, "\n"))
		}
	}

	// The control: a server that does not say that it leaves. Clients notice.
	failed := 0
	for _, c := range p.counting(t, func() {
		p.servers[0].Kill()
		p.awaitBalancer(t, 0, false)
		restart(t, p.servers[0])
		p.awaitBalancer(t, 0, true)
	}) {
		failed += len(c.failures)
	}
	if failed == 0 {
		t.Error("no request failed when a server was killed: what was counted before proves nothing")
	}
}

// awaitBalancer waits until the balancer finds server i ready, or not.
func (p *serverPair) awaitBalancer(t *testing.T, i int, ready bool) {
	t.Helper()
	eventually(t, func() error {
		if p.balancer.ready[i].Load() != ready {
			return fmt.Errorf("server %d: the balancer does not find that ready is %t", i, ready)
		}
		return nil
	})
}

func TestAServerWithKeysOfItsOwnDoesNotStandBesideOthers(t *testing.T) {
	t.Parallel()
	p := startServerPair(t)
	own := filepath.Join(p.dir, "other")
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	args := p.servers[0].Args()
	for i, arg := range args {
		switch arg {
		case "--data-dir":
			args[i+1] = own
		case "--listen":
			args[i+1] = address
		}
	}
	_, err = process.Start(context.Background(), process.Spec{Path: process.Binary("atoll"), Args: args, Log: p.path("other.log"), Ready: "atoll serves at "})
	if err == nil {
		t.Fatal("it serves")
	}
	for _, want := range []string{filepath.Join(own, "pki"), "sa.key", "--replace-keys"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("its end does not name %s: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "goroutine ") {
		t.Errorf("its end shows stacks: %v", err)
	}
}

// TestASyncerBehindABalancerIsReachedThroughEachServer has a syncer that finds one address, and so
// has a tunnel to one of two servers.
func TestASyncerBehindABalancerIsReachedThroughEachServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := startServerPair(t)
	below, err := p.startPhysical(ctx, "south")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := below.Stop(); err != nil {
			t.Error(err)
		}
	})
	giveKubelet(t, below)
	must(t)(p.root.Apply(ctx, "{apiVersion: fleet.atoll.dev/v1alpha1, kind: PhysicalCluster, metadata: {name: south}, spec: {connection: {type: Pull}}}"))
	credential := p.path("south-syncer.kubeconfig")
	if out, err := exec.Command(process.Binary("atoll"), "kubeconfig", "--data-dir", p.path("server-0"), "--output", credential, "--syncer", "south").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start(t, process.Spec{
		Path: process.Binary("atoll-syncer"), Args: []string{"--physical-cluster", "south", "--kubeconfig", credential, "--physical-kubeconfig", below.Kubeconfig},
		Log: p.path("south-syncer.log"), Ready: "Syncing",
	})
	shop := process.Kubectl{Kubeconfig: p.path("server-0", "admin.kubeconfig"), Context: "shop"}
	must(t)(p.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/south"))
	must(t)(shop.Apply(ctx, twoContainers))
	must(t)(shop.Run(ctx, "wait", "--for=condition=Ready", "pod/alone", "--timeout=3m"))

	// through runs kubectl at one server, and not through the balancer.
	through := func(server int, args ...string) error {
		url := "https://" + p.balancer.servers[server] + "/clusters/shop"
		out, err := shop.Run(ctx, append([]string{"--server", url}, args...)...)
		if err == nil && strings.TrimSpace(out) == "" {
			err = errors.New("nothing is printed")
		}
		if err != nil {
			return fmt.Errorf("through server %d: %w", server, err)
		}
		return nil
	}
	for server := range p.servers {
		eventually(t, func() error { return through(server, "logs", "alone", "-c", "app", "--tail=1") })
		for range 3 {
			if err := errors.Join(through(server, "logs", "alone", "-c", "app", "--tail=1"), through(server, "exec", "alone", "-c", "app", "--", "echo", "on")); err != nil {
				t.Error(err)
			}
		}
	}
	servers := must(t)(p.root.Run(ctx, "-n", "kube-system", "get", "leases", "-l", "atoll.dev/server", "-o", "jsonpath={.items[*].spec.holderIdentity}"))
	if len(strings.Fields(servers)) != 2 {
		t.Errorf("Leases of servers are those of %q", servers)
	}

	// Who is no server gets no stream: not the syncer itself, and not an admin.
	for who, k := range map[string]process.Kubectl{"a syncer": {Kubeconfig: credential}, "an admin": p.root} {
		cmd := k.Command(ctx, "get", "--raw", "/tunnels/south", "--server", p.url+"/clusters/root")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "orbidden") {
			t.Errorf("%s asks for a stream: %v, %s", who, err, out)
		}
	}

	// Whichever has the tunnel: without it the syncer makes one to the other.
	for server := range p.servers {
		p.servers[server].Kill()
		p.awaitBalancer(t, server, false)
		eventually(t, func() error { return through(1-server, "logs", "alone", "-c", "app", "--tail=1") })
		restart(t, p.servers[server])
		p.awaitBalancer(t, server, true)
		eventually(t, func() error { return through(server, "logs", "alone", "-c", "app", "--tail=1") })
	}
}
