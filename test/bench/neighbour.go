package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// neighbourTime is for how long a neighbour is measured, without and with each noise.
	neighbourTime = 6 * time.Second
	// noiseLead is how long a noise goes on before that.
	noiseLead = 2 * time.Second
	// The targets: times the neighbour's p50 and p99 without noise, and times the live heap.
	mostP50, mostP99, mostHeap = 3.0, 10.0, 1.2
	// afterNoise is how long the server has to get back to rest: watch caches keep events for
	// 75 seconds, and forget what was large when nothing has happened for twice as long.
	afterNoise = 240 * time.Second
)

// neighbourPart measures what each noise of a hostile tenant does to a tenant of another
// logical cluster, who gets and creates ConfigMaps one after the other. The noise is a
// process of its own, at the lowest priority: what is measured is the server, not a
// client that competes with another for its processors.
func neighbourPart(ctx context.Context, l *lab, o options) error {
	s, err := l.startAtoll(ctx, "atoll", "--tenant-egress-allow", "127.0.0.0/8")
	if err != nil {
		return err
	}
	p := &population{}
	if p.kube, p.own, err = s.scoped(); err != nil {
		return err
	}
	if err := p.create(ctx, quietCluster); err != nil {
		return err
	}
	config, err := p.tenant(ctx, s, quietCluster)
	if err != nil {
		return err
	}
	if err := p.fill(ctx, quietCluster); err != nil {
		return err
	}
	n := &neighbour{server: s, population: p, dir: l.dir, profiles: o.profiles}
	if n.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	// What only the first requests of a server pay, and keeps for all of them.
	if err := n.use(ctx); err != nil {
		return err
	}
	if _, err := n.measure(ctx, neighbourTime); err != nil {
		return err
	}
	t := newTable("noise", "of it a second", "get ms p50 without", "with", "ratio", "p99 without", "with", "ratio",
		"create ms p50 without", "with", "ratio", "p99 without", "with", "ratio", "heap after over before", "held")
	held, all := 0, 0
	for _, noise := range noiseNames() {
		if len(o.noises) > 0 && !slices.Contains(o.noises, noise) {
			continue
		}
		all++
		ok, row, err := n.beside(ctx, noise)
		if err != nil {
			return fmt.Errorf("%s: %w", noise, err)
		}
		if ok {
			held++
		}
		fmt.Fprintln(os.Stderr, strings.Join(row, " | "))
		t.add(row...)
	}
	t.print()
	if !s.Running() {
		return errors.New("the server has ended")
	}
	fmt.Printf("%d of %d held: p50 within %.0fx, p99 within %.0fx, heap within %.1fx after %s; the server runs.\n\n", held, all, mostP50, mostP99, mostHeap, afterNoise)
	return nil
}

// neighbour is a tenant who wants to work.
type neighbour struct {
	*population
	server *server
	client kubernetes.Interface
	dir    string
	// profiles is where the heap before and after each noise is written, if anywhere.
	profiles string
	made     int
}

// latencies are those of the neighbour's requests.
type latencies struct{ get, create []time.Duration }

// measure gets and creates for a while.
func (n *neighbour) measure(ctx context.Context, d time.Duration) (l latencies, err error) {
	maps := n.client.CoreV1().ConfigMaps("default")
	for began := time.Now(); time.Since(began) < d || len(l.get) < 3; {
		start := time.Now()
		if _, err := maps.Get(ctx, fmt.Sprint("object-", len(l.get)%noisyObjects), metav1.GetOptions{}); err != nil {
			return l, fmt.Errorf("the neighbour's get: %w", err)
		}
		l.get = append(l.get, time.Since(start))
		n.made++
		name := fmt.Sprint("made-", n.made)
		start = time.Now()
		if _, err := maps.Create(ctx, newConfigMap(metav1.ObjectMeta{Name: name}), metav1.CreateOptions{}); err != nil {
			return l, fmt.Errorf("the neighbour's create: %w", err)
		}
		l.create = append(l.create, time.Since(start))
		if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return l, fmt.Errorf("the neighbour's delete: %w", err)
		}
	}
	return l, nil
}

// use has somebody else use policies, definitions and documents, who leaves again.
func (n *neighbour) use(ctx context.Context) error {
	const c = logicalcluster.Name("first")
	if err := n.create(ctx, c); err != nil {
		return err
	}
	config, err := n.tenant(ctx, n.server, c)
	if err != nil {
		return err
	}
	first, err := newNoise(config)
	if err != nil {
		return err
	}
	if err := errors.Join(first.policies(ctx, 1), first.define(ctx, 1), first.ask(ctx, http.MethodGet, "/openapi/v2", nil)); err != nil {
		return err
	}
	// A policy takes effect a moment after it is made.
	for tries := 1; first.put(ctx, fmt.Sprint("first-", tries), 100) == nil; tries++ {
		if tries == 100 {
			return errors.New("the policy does not deny what it should")
		}
		time.Sleep(100 * time.Millisecond)
	}
	return n.remove(ctx, c)
}

// remove deletes a logical cluster.
func (n *neighbour) remove(ctx context.Context, c logicalcluster.Name) error {
	if err := n.own.TenancyV1alpha1().LogicalClusters().Delete(inCluster(ctx, scope.Root), c.String(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting %s: %w", c, err)
	}
	return nil
}

// beside measures without and with one noise, and reports whether the targets are met.
func (n *neighbour) beside(ctx context.Context, noise string) (ok bool, row []string, err error) {
	c := logicalcluster.Name("noisy-" + strings.ReplaceAll(strings.ToLower(noise), " ", "-"))
	if err := n.create(ctx, c); err != nil {
		return false, nil, err
	}
	config, err := n.tenant(ctx, n.server, c)
	if err != nil {
		return false, nil, err
	}
	before, err := n.server.memory(ctx)
	if err != nil {
		return false, nil, err
	}
	if err := n.server.saveProfile(ctx, n.profiles, "heap", c.String()+"-before.heap.pb.gz"); err != nil {
		return false, nil, err
	}
	without, err := n.measure(ctx, neighbourTime)
	if err != nil {
		return false, nil, err
	}
	stop, err := n.makeNoise(ctx, noise, config)
	if err != nil {
		return false, nil, err
	}
	with, err := n.measure(ctx, neighbourTime)
	rate, stopped := stop()
	if err = errors.Join(err, stopped); err != nil {
		return false, nil, err
	}
	heap, err := n.heapAfter(ctx, c, before.heap)
	if err != nil {
		return false, nil, err
	}
	if err := n.server.saveProfile(ctx, n.profiles, "heap", c.String()+"-after.heap.pb.gz"); err != nil {
		return false, nil, err
	}
	ok = heap <= mostHeap
	row = []string{noise, rate}
	for _, of := range [][2][]time.Duration{{without.get, with.get}, {without.create, with.create}} {
		for _, by := range []struct {
			of   func([]time.Duration) time.Duration
			most float64
		}{{func(d []time.Duration) time.Duration { return percentile(d, 50) }, mostP50}, {func(d []time.Duration) time.Duration { return percentile(d, 99) }, mostP99}} {
			quiet, loud := by.of(of[0]), by.of(of[1])
			ratio := float64(loud) / float64(quiet)
			ok = ok && ratio <= by.most
			row = append(row, ms(quiet), ms(loud), times(ratio))
		}
	}
	verdict := "no"
	if ok {
		verdict = "yes"
	}
	return ok, append(row, times(heap), verdict), nil
}

// heapAfter is the live heap over what it was before, when the noise and its logical
// cluster are gone: the least that it comes back to.
func (n *neighbour) heapAfter(ctx context.Context, c logicalcluster.Name, before int64) (float64, error) {
	if err := n.remove(ctx, c); err != nil {
		return 0, err
	}
	for began := time.Now(); ; {
		m, err := n.server.memory(ctx)
		if err != nil {
			return 0, err
		}
		ratio := float64(m.heap) / float64(before)
		if ratio <= mostHeap || time.Since(began) > afterNoise {
			return ratio, nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return 0, err
		}
	}
}

// makeNoise starts the process; stop ends it and returns what it did in a second.
func (n *neighbour) makeNoise(ctx context.Context, noise string, config *rest.Config) (stop func() (string, error), err error) {
	data, err := json.Marshal(noiseConfig{Noise: noise, Host: config.Host, Token: config.BearerToken, CA: config.CAData, CAFile: config.CAFile})
	if err != nil {
		return nil, fmt.Errorf("encoding the noise: %w", err)
	}
	file := filepath.Join(n.dir, "noise-"+noise+".json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, fmt.Errorf("writing the noise: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	// From its beginning, so that all of its threads have it.
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self, "-noise", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the noise: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the noise: %w", err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		return nil, errors.Join(fmt.Errorf("the noise says %q", lines.Text()), cmd.Process.Kill(), cmd.Wait())
	}
	if err := pause(ctx, noiseLead); err != nil {
		return nil, err
	}
	return func() (string, error) {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return "", fmt.Errorf("ending the noise: %w", err)
		}
		done := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer done.Stop()
		lines.Scan()
		return lines.Text(), cmd.Wait()
	}, nil
}
