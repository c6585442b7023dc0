//go:build linux

package real

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/traffic"
)

// cause is something that moves the namespace from one physical cluster to the other; it
// returns when the move is over.
type cause struct {
	name string
	move func(t *testing.T, k process.Kubectl, from, to string)
}

var causes = []cause{
	{"a pin", func(t *testing.T, k process.Kubectl, _, to string) {
		pin(t, k, to)
		settled(t, k, to)
	}},
	{"a policy that changes", func(t *testing.T, k process.Kubectl, from, to string) {
		must(t)(k.In(namespace).Apply(t.Context(), policy(from)))
		pin(t, k, "")
		must(t)(k.In(namespace).Apply(t.Context(), policy(to)))
		settled(t, k, to)
		must(t)(k.In(namespace).Apply(t.Context(), policy()))
	}},
	{"a taint NoExecute", func(t *testing.T, k process.Kubectl, from, to string) {
		patch(t, from, `{"spec":{"taints":[{"key":"flood","effect":"NoExecute"}]}}`)
		defer patch(t, from, `{"spec":{"taints":null}}`)
		settled(t, k, to)
	}},
	{"a drain", func(t *testing.T, k process.Kubectl, from, to string) {
		patch(t, from, `{"spec":{"drain":{"requested":true}}}`)
		defer patch(t, from, `{"spec":{"drain":null}}`)
		settled(t, k, to)
		must(t)(theLab.Root.Run(t.Context(), "wait", "physicalcluster/"+from, "--for=condition=Drained", "--timeout=3m"))
	}},
	{"a move back while moving", func(t *testing.T, k process.Kubectl, from, to string) {
		for _, phase := range []placementv1alpha1.TransitionPhase{placementv1alpha1.TransitionStarting, placementv1alpha1.TransitionDraining, placementv1alpha1.TransitionRemoving} {
			pin(t, k, to)
			reaches(t, k, phase)
			pin(t, k, from)
			settled(t, k, from)
		}
		pin(t, k, to)
		settled(t, k, to)
	}},
	{"kill -9 of the server, 3 times", func(t *testing.T, k process.Kubectl, _, to string) {
		// Consumers of endpoints that do not reach the server wait longer and longer, as reflectors do, and it is away three times.
		must(t)(k.In(namespace).Apply(t.Context(), slowly))
		defer func() { must(t)(k.In(namespace).Apply(t.Context(), policy())) }()
		pin(t, k, to)
		for _, phase := range []placementv1alpha1.TransitionPhase{placementv1alpha1.TransitionStarting, placementv1alpha1.TransitionDraining, placementv1alpha1.TransitionRemoving} {
			reaches(t, k, phase)
			crash(t, theLab.Server)
		}
		settled(t, k, to)
	}},
	{"kill -9 of both API servers", func(t *testing.T, k process.Kubectl, from, to string) {
		pin(t, k, to)
		reaches(t, k, placementv1alpha1.TransitionStarting)
		crash(t, theLab.PhysicalCluster(to).ControlPlane)
		reaches(t, k, placementv1alpha1.TransitionDraining)
		crash(t, theLab.PhysicalCluster(from).ControlPlane)
		settled(t, k, to)
	}},
}

// balancedAnew is who connects to a load balancer for each request.
const balancedAnew = "load balancer, new connections"

// crash kills a process, with the syncers that it may hold, and starts it again.
func crash(t *testing.T, p *process.Process) {
	t.Helper()
	p.Kill()
	if err := p.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, physicalCluster, patch string) {
	t.Helper()
	must(t)(theLab.Root.Run(t.Context(), "patch", "physicalcluster/"+physicalCluster, "--type=merge", "-p", patch))
}

func TestNoRequestFailsWhateverMovesANamespace(t *testing.T) {
	ctx := context.Background()
	endRenewal(t) // what is pinned blocks a drain
	k, err := theLab.LogicalCluster(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			report(ctx, t, k)
		}
	})
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", annotations: {placement.atoll.dev/cluster: east}}}"))
	must(t)(k.In(namespace).Apply(ctx, policy()))
	must(t)(k.In(namespace).Apply(ctx, application))
	must(t)(k.In(namespace).Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	counts := consume(t, k)
	fmt.Printf("| %-30s | %5s | %-32s | %6s | %4s | %5s |\n", "what moves it", "s", "consumer", "done", "fail", "longest")
	from, to := "east", "west"
	for _, c := range causes {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range measure(c.name, counts, func() { c.move(t, k, from, to) }) {
				if r.Failed > 0 || r.Done == 0 {
					t.Errorf("%s: %d succeeded, %d failed, the first ones: %q", r.Name, r.Done, r.Failed, r.First)
				}
			}
		})
		from, to = to, from
	}
	// What is published too early must be noticed, or a load balancer that is behind would not have been.
	must(t)(k.In(namespace).Apply(ctx, atOnce))
	for _, r := range measure("control: new addresses at once", counts, func() { pin(t, k, to); settled(t, k, to) }) {
		switch {
		case r.Name == balancedAnew && r.Failed == 0:
			t.Errorf("VOID: %s noticed nothing of a load balancer that was not ready", r.Name)
		case strings.HasPrefix(r.Name, "endpoints") && r.Failed > 0:
			t.Errorf("%s: %d failed, the first ones: %q", r.Name, r.Failed, r.First)
		}
	}
	must(t)(k.In(namespace).Apply(ctx, policy()))
	from, to = to, from
	// What stops before it starts must be noticed, or nothing above was shown.
	must(t)(k.In(namespace).Run(ctx, "patch", "deployment/web", "-p", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`))
	both := watchPods(t, k, to, from)
	results := measure("control: stop, then start", counts, func() { pin(t, k, to); settled(t, k, to) })
	if err := both(); err != nil {
		t.Error(err)
	}
	for _, r := range results {
		if r.Failed == 0 {
			t.Errorf("VOID: %s noticed nothing of a move that stops the application before it starts it again, so it would not have noticed a failure either", r.Name)
		}
	}
}

// consume starts all kinds of consumers outside of the physical clusters.
func consume(t *testing.T, k process.Kubectl) []*traffic.Count {
	t.Helper()
	directory, err := traffic.Watch(t.Context(), k.Kubeconfig, namespace, "web")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if e, b := directory.Endpoints(), directory.Balancers(); len(e) != 3 || len(b) != 1 {
			return fmt.Errorf("endpoints %v, addresses of load balancers %v", e, b)
		}
		return traffic.Try(t.Context(), directory.Balancers()[0]) // until its first check has passed
	})
	return []*traffic.Count{
		traffic.Requests(t.Context(), "endpoints, new connections", directory.Endpoints, false),
		traffic.Requests(t.Context(), "endpoints, kept connections", directory.Endpoints, true),
		traffic.Stream(t.Context(), "endpoints, one long stream", directory.Endpoints),
		traffic.Requests(t.Context(), balancedAnew, directory.Balancers, false),
		traffic.Requests(t.Context(), "load balancer, kept connections", directory.Balancers, true),
		traffic.Stream(t.Context(), "load balancer, one long stream", directory.Balancers),
	}
}

// measure is what consumers met while a move went on, and in the second after it; it
// prints that as rows of a table.
func measure(what string, counts []*traffic.Count, move func()) []traffic.Result {
	began := time.Now()
	move()
	took := time.Since(began)
	time.Sleep(time.Second)
	var out []traffic.Result
	for _, count := range counts {
		r := count.Take()
		fmt.Printf("| %-30s | %5.1f | %-32s | %6d | %4d | %5.2f |\n", what, took.Seconds(), r.Name, r.Done, r.Failed, r.Longest.Seconds())
		out = append(out, r)
	}
	return out
}

// watchPods looks whether pods of the application are on two physical clusters at a time,
// until it is asked for what it saw. The one where they start is read first: what is on
// the other one afterwards is there at the same time.
func watchPods(t *testing.T, k process.Kubectl, physicalClusters ...string) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, namespaceBelow := make(chan error, 1), below(t, k)
	go func() {
		var seen error
		for ctx.Err() == nil {
			var on []string
			for _, name := range physicalClusters {
				out, err := theLab.PhysicalCluster(name).Run(ctx, "get", "pods", "-n", namespaceBelow, "-l", "app=web", "-o", "name")
				if err == nil && out != "" {
					on = append(on, fmt.Sprintf("%s: %q", name, out))
				}
			}
			if len(on) > 1 && seen == nil {
				seen = fmt.Errorf("what must not run twice has pods on two physical clusters: %v", on)
			}
		}
		done <- seen
	}()
	return func() error { cancel(); return <-done }
}

// report logs what both sides have when a test failed.
func report(ctx context.Context, t *testing.T, k process.Kubectl) {
	const workloads = "deployments,pods,services,endpointslices,events"
	out, err := k.Run(ctx, "get", workloads+",placements,copies", "-A", "-o", "wide")
	t.Logf("above (error %v):\n%s", err, out)
	for _, p := range theLab.Physical {
		out, err := p.Run(ctx, "get", workloads, "-A", "-o", "wide")
		t.Logf("on %s (error %v):\n%s", p.Name, err, out)
	}
	t.Log(theLab.Logs())
}
