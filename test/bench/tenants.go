package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// objectsEach are made in a namespace of each logical cluster.
	objectsEach = 5
	// definitionsEach are made in a tenth of the logical clusters.
	definitionsEach = 20
	// eventsTimed is how many events are sent to open watches.
	eventsTimed = 200
)

// tenantsPart compares a server full of logical clusters that are in use with an
// empty one: memory, requests to one logical cluster, an event while all are
// watched.
func tenantsPart(ctx context.Context, l *lab, o options) error {
	n := o.sizes[len(o.sizes)-1]
	empty, err := l.startAtoll(ctx, "empty")
	if err != nil {
		return err
	}
	full, err := l.startAtoll(ctx, "full")
	if err != nil {
		return err
	}
	for _, s := range []*server{empty, full} {
		if err := measureIdle(ctx, o.idleFor, s); err != nil {
			return err
		}
	}
	nothing, err := full.memory(ctx)
	if err != nil {
		return err
	}
	few, err := newTenants(ctx, empty, 1)
	if err != nil {
		return err
	}
	sizes := newTable("logical clusters", "of them with 20 definitions", "heap MiB", "KiB each beside an empty server", "goroutines", "connections to etcd", "RSS MiB")
	if err := addSize(ctx, sizes, empty, few, 0, nothing.heap); err != nil {
		return err
	}
	many, err := newTenants(ctx, full, n)
	if err != nil {
		return err
	}
	if err := addSize(ctx, sizes, full, many, 0, nothing.heap); err != nil {
		return err
	}
	if err := many.define(ctx, max(1, n/10)); err != nil {
		return err
	}
	if err := addSize(ctx, sizes, full, many, max(1, n/10), nothing.heap); err != nil {
		return err
	}
	sizes.print()
	if err := full.saveProfile(ctx, o.profiles, "heap", "definitions.heap.pb.gz"); err != nil {
		return err
	}

	sides := make([]*side, 2)
	for i, t := range []*tenants{few, many} {
		client, err := t.server.in(clusterName(0))
		if err != nil {
			return err
		}
		sides[i] = &side{name: fmt.Sprintf("%d logical clusters", t.size), server: t.server, client: client, namespace: "work"}
	}
	requests := newOperationsTable()
	if err := compareOperations(ctx, requests, configMapKind, sides, o.rounds, o.made); err != nil {
		return err
	}
	requests.print()
	return compareEvents(ctx, few, many)
}

// tenants are logical clusters that are in use.
type tenants struct {
	*population
	server *server
}

// newTenants makes n logical clusters, each with a namespace and five objects.
func newTenants(ctx context.Context, s *server, n int) (*tenants, error) {
	t := &tenants{population: &population{}, server: s}
	var err error
	if t.kube, t.own, err = s.scoped(); err != nil {
		return nil, err
	}
	return t, t.fill(ctx, n)
}

// fill makes more of them, until there are n.
func (t *tenants) fill(ctx context.Context, n int) error {
	began := time.Now()
	fill, inside := errgroup.WithContext(ctx)
	fill.SetLimit(fillers)
	for i := t.size; i < n; i++ {
		fill.Go(func() error { return t.furnish(inside, i) })
	}
	if err := fill.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d logical clusters with a namespace and %d objects each were made in %s.\n\n", n-t.size, objectsEach, time.Since(began).Round(time.Second))
	t.size = n
	return nil
}

func (t *tenants) furnish(ctx context.Context, i int) error {
	if err := t.create(ctx, clusterName(i)); err != nil {
		return err
	}
	inside := inCluster(ctx, clusterName(i))
	if _, err := t.kube.CoreV1().Namespaces().Create(inside, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	for n := range objectsEach {
		if _, err := t.kube.CoreV1().ConfigMaps("work").Create(inside, newConfigMap(metav1.ObjectMeta{Name: fmt.Sprint("object-", n)}), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating an object: %w", err)
		}
	}
	return nil
}

// define gives the first n logical clusters the same definitions, and one object of
// each to the first.
func (t *tenants) define(ctx context.Context, n int) error {
	d, err := newDefiner(t.server, scope.ScopedConfig(t.server.config))
	if err != nil {
		return err
	}
	began := time.Now()
	fill, inside := errgroup.WithContext(ctx)
	fill.SetLimit(fillers)
	for i := range n {
		fill.Go(func() error {
			at := inCluster(inside, clusterName(i))
			for k := range definitionsEach {
				var err error
				if i == 0 {
					_, err = d.first(at, k)
				} else {
					_, err = d.define(at, k)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := fill.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d definitions in each of %d logical clusters were made in %s.\n\n", definitionsEach, n, time.Since(began).Round(time.Second))
	return nil
}

// addSize adds what a server holds; empty is the heap of one that has nothing to do.
func addSize(ctx context.Context, into *table, s *server, t *tenants, defining int, empty int64) error {
	if err := s.rest(ctx); err != nil {
		return err
	}
	m, err := s.memory(ctx)
	if err != nil {
		return err
	}
	connections, err := s.etcdConnections(ctx)
	if err != nil {
		return err
	}
	into.add(fmt.Sprint(t.size), fmt.Sprint(defining), mib(m.heap), fmt.Sprintf("%.1f", float64(m.heap-empty)/float64(t.size)/1024),
		fmt.Sprint(m.goroutines), fmt.Sprint(connections), mib(m.rss))
	return nil
}

// etcdConnections counts the ends of connections that the process has to the
// socket of its own etcd, both of which are in the process.
func (s *server) etcdConnections(ctx context.Context) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", s.PID()))
	if err != nil || ctx.Err() != nil {
		return 0, nil //nolint:nilerr // not on Linux: unknown
	}
	socket := regexp.MustCompile(regexp.QuoteMeta(filepath.Dir(s.kubeconfig)) + `.*client\.sock`)
	count := 0
	for line := range strings.Lines(string(data)) {
		if socket.MatchString(line) {
			count++
		}
	}
	return count, nil
}

// compareEvents opens a watch in every logical cluster and sends events to one.
func compareEvents(ctx context.Context, sides ...*tenants) error {
	t := newTable("open watches, one in each logical cluster", "opened in s", "write to event, ms p50", "ratio", "p99", "CPU ms of a write and its event", "ratio")
	var base, baseCPU time.Duration
	for _, side := range sides {
		ctx, closeAll := context.WithCancel(ctx)
		defer closeAll()
		began := time.Now()
		mine, err := side.watchAll(ctx)
		if err != nil {
			return err
		}
		opened := time.Since(began)
		if err := side.server.rest(ctx); err != nil {
			return err
		}
		took, cpu, err := side.events(ctx, mine)
		if err != nil {
			return err
		}
		row := []string{fmt.Sprint(side.size), fmt.Sprintf("%.1f", opened.Seconds()), ms(median(took)), "", ms(percentile(took, 99)), ms(cpu), ""}
		if base == 0 {
			base, baseCPU = median(took), cpu
		} else {
			row[3], row[6] = times(float64(median(took))/float64(base)), times(float64(cpu)/float64(baseCPU))
		}
		t.add(row...)
	}
	t.print()
	return nil
}

// watchAll opens the watches and returns that of the first logical cluster; the
// events of the others are thrown away.
func (t *tenants) watchAll(ctx context.Context) (watch.Interface, error) {
	var first watch.Interface
	open, inside := errgroup.WithContext(ctx)
	open.SetLimit(fillers)
	for i := range t.size {
		open.Go(func() error {
			w, err := t.kube.CoreV1().ConfigMaps("").Watch(inCluster(ctx, clusterName(i)), metav1.ListOptions{ResourceVersion: "0"})
			if err != nil || inside.Err() != nil {
				return err
			}
			if i == 0 {
				first = w
				return nil
			}
			go func() {
				for range w.ResultChan() {
				}
			}()
			return nil
		})
	}
	if err := open.Wait(); err != nil {
		return nil, fmt.Errorf("opening watches: %w", err)
	}
	return first, nil
}

// events times how long it takes from a write to its event.
func (t *tenants) events(ctx context.Context, w watch.Interface) (took []time.Duration, cpu time.Duration, err error) {
	inside := inCluster(ctx, clusterName(0))
	before, err := cpuTime(t.server.PID())
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	for i := range eventsTimed {
		name := fmt.Sprint("event-", i)
		start := time.Now()
		if _, err := t.kube.CoreV1().ConfigMaps("work").Create(inside, newConfigMap(metav1.ObjectMeta{Name: name}), metav1.CreateOptions{}); err != nil {
			return nil, 0, fmt.Errorf("writing: %w", err)
		}
		for {
			e, ok := <-w.ResultChan()
			if !ok {
				return nil, 0, fmt.Errorf("the watch ended after %d events", i)
			}
			if c, ok := e.Object.(*corev1.ConfigMap); ok && c.Name == name {
				break
			}
		}
		took = append(took, time.Since(start))
	}
	after, err := cpuTime(t.server.PID())
	if err != nil {
		return nil, 0, err
	}
	idle := time.Duration(t.server.idle * float64(time.Since(began)))
	return took, max(0, after-before-idle) / eventsTimed, nil
}
