package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// timed logical clusters of each size are made one after the other.
	timed = 100
	// fillers make the others.
	fillers = 8
)

// population makes logical clusters, numbered from 0.
type population struct {
	kube kubernetes.Interface
	own  versioned.Interface
	size int
}

// birth is how long it took until a logical cluster could be used.
type birth struct{ created, usable time.Duration }

// clustersPart fills a server with logical clusters, and looks at it at each size.
func clustersPart(ctx context.Context, l *lab, o options) error {
	s, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	if err := measureIdle(ctx, o.idleFor, s); err != nil {
		return err
	}
	births := newTable("logical clusters", "create returns, ms p50", "p99", "create and first write, ms p50", "p99")
	sizes := newTable("logical clusters", "heap MiB", "KiB each more", "goroutines", "each more", "RSS MiB", "KiB each more")
	latencies := newTable("logical clusters", "get ms p50", "p99", "list ms p50", "p99", "create ms p50", "p99", "delete ms p50", "p99")
	p := &population{}
	if p.kube, p.own, err = s.scoped(); err != nil {
		return err
	}
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	empty := before
	sizes.add("0", mib(before.heap), "", fmt.Sprint(before.goroutines), "", mib(before.rss), "")
	for _, size := range o.sizes {
		from := p.size
		times, err := p.grow(ctx, size)
		if err != nil {
			return err
		}
		births.add(append([]string{fmt.Sprint(size)}, birthRow(times)...)...)
		if err := s.rest(ctx); err != nil {
			return err
		}
		now, err := s.memory(ctx)
		if err != nil {
			return err
		}
		sizes.add(memoryRow(fmt.Sprint(size), now, before, p.size-from)...)
		before = now
		if err := s.saveProfile(ctx, o.profiles, "heap", fmt.Sprintf("clusters-%d.heap.pb.gz", size)); err != nil {
			return err
		}
		row, err := p.latencyRow(ctx, o.latencySamples)
		if err != nil {
			return err
		}
		latencies.add(row...)
	}
	restart, now, err := s.restart(ctx)
	if err != nil {
		return err
	}
	if err := s.saveProfile(ctx, o.profiles, "heap", "restart.heap.pb.gz"); err != nil {
		return err
	}
	sizes.add(memoryRow(fmt.Sprintf("%d, after a restart", p.size), now, empty, p.size)...)
	births.print()
	sizes.print()
	latencies.print()
	fmt.Printf("A restart with %d logical clusters took %s until the server was ready.\n\n", p.size, restart.Round(10*time.Millisecond))
	return nil
}

// grow adds logical clusters up to size; those that are timed come last, when
// size is nearly reached.
func (p *population) grow(ctx context.Context, size int) ([]birth, error) {
	fill, inside := errgroup.WithContext(ctx)
	fill.SetLimit(fillers)
	for ; p.size < size-min(timed, size-p.size); p.size++ {
		n := p.size
		fill.Go(func() error {
			return p.create(inside, clusterName(n))
		})
	}
	if err := fill.Wait(); err != nil {
		return nil, err
	}
	var births []birth
	for ; p.size < size; p.size++ {
		b, err := p.use(ctx, clusterName(p.size))
		if err != nil {
			return nil, err
		}
		births = append(births, b)
	}
	return births, nil
}

func (p *population) create(ctx context.Context, name logicalcluster.Name) error {
	cluster := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name.String()}}
	if _, err := p.own.TenancyV1alpha1().LogicalClusters().Create(inCluster(ctx, scope.Root), cluster, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating logical cluster %s: %w", name, err)
	}
	return nil
}

// use creates a logical cluster and writes into it at once.
func (p *population) use(ctx context.Context, name logicalcluster.Name) (b birth, err error) {
	began := time.Now()
	if err := p.create(ctx, name); err != nil {
		return b, err
	}
	b.created = time.Since(began)
	if _, err := p.kube.CoreV1().ConfigMaps("default").Create(inCluster(ctx, name), newConfigMap(metav1.ObjectMeta{Name: "first"}), metav1.CreateOptions{}); err != nil {
		return b, fmt.Errorf("writing into logical cluster %s: %w", name, err)
	}
	b.usable = time.Since(began)
	return b, nil
}

func clusterName(n int) logicalcluster.Name { return logicalcluster.Name(fmt.Sprintf("c%06d", n)) }

// latencyRow measures in logical clusters all over the population, one
// operation after the other. What it creates it deletes again.
func (p *population) latencyRow(ctx context.Context, samples int) ([]string, error) {
	row := []string{fmt.Sprint(p.size)}
	configMaps := of(p.kube.CoreV1().ConfigMaps("default"), newConfigMap, nil)
	for _, op := range []func(ctx context.Context, name string) error{
		func(ctx context.Context, _ string) error { return configMaps.get(ctx, "kube-root-ca.crt") },
		func(ctx context.Context, _ string) error { return configMaps.list(ctx) },
		configMaps.create,
		configMaps.remove,
	} {
		var times []time.Duration
		for i := range samples {
			inside := inCluster(ctx, clusterName(i*7919%p.size)) // a prime: spread, and the same at each size
			began := time.Now()
			if err := op(inside, fmt.Sprintf("sample-%d-%d", p.size, i)); err != nil {
				return nil, err
			}
			times = append(times, time.Since(began))
		}
		row = append(row, ms(median(times)), ms(percentile(times, 99)))
	}
	return row, nil
}

// rest waits until controllers have done what a fill left them to do.
func (s *server) rest(ctx context.Context) error {
	const quiet = 3
	for quietFor := 0; quietFor < quiet; {
		before, err := cpuTime(s.PID())
		if err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		after, err := cpuTime(s.PID())
		if err != nil {
			return err
		}
		quietFor++
		if after-before > 200*time.Millisecond {
			quietFor = 0
		}
	}
	return nil
}

// restart ends the server and starts it again with its data.
func (s *server) restart(ctx context.Context) (took time.Duration, m memory, err error) {
	if err := s.Stop(); err != nil {
		return 0, m, err
	}
	began := time.Now()
	if err := s.Start(ctx); err != nil {
		return 0, m, fmt.Errorf("starting %s again: %w", s.name, err)
	}
	took = time.Since(began)
	if err := s.rest(ctx); err != nil {
		return 0, m, err
	}
	m, err = s.memory(ctx)
	return took, m, err
}

func birthRow(births []birth) []string {
	var created, usable []time.Duration
	for _, b := range births {
		created, usable = append(created, b.created), append(usable, b.usable)
	}
	return []string{ms(median(created)), ms(percentile(created, 99)), ms(median(usable)), ms(percentile(usable, 99))}
}

// memoryRow shows now, and what each of more logical clusters added since before.
func memoryRow(name string, now, before memory, more int) []string {
	each := func(now, before int64, unit float64) string {
		return fmt.Sprintf("%.1f", float64(now-before)/float64(more)/unit)
	}
	return []string{
		name, mib(now.heap), each(now.heap, before.heap, 1<<10),
		fmt.Sprint(now.goroutines), fmt.Sprintf("%.3f", float64(now.goroutines-before.goroutines)/float64(more)),
		mib(now.rss), each(now.rss, before.rss, 1<<10),
	}
}

func mib(n int64) string { return fmt.Sprintf("%.0f", float64(n)/(1<<20)) }
