package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// side is one of those that are compared.
type side struct {
	name      string
	server    *server
	client    kubernetes.Interface
	namespace string
	// rest is how long it does nothing between two operations.
	rest time.Duration
}

// newSide makes the namespace and returns the side. cluster is empty for a stock
// server.
func newSide(ctx context.Context, name string, s *server, cluster logicalcluster.Name, namespace string) (*side, error) {
	client, err := s.in(cluster)
	if err != nil {
		return nil, err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating namespace %s at %s: %w", namespace, s.name, err)
	}
	return &side{name: name, server: s, client: client, namespace: namespace}, nil
}

// operation is one of those that are compared; perRound says how often it happens in
// a round in which so many objects are made. What first does counts as CPU only.
type operation struct {
	name     string
	do       func(o objects, ctx context.Context, name string) error
	perRound func(made int) int
	first    func(o objects, ctx context.Context) error
}

var operations = []operation{
	{name: "create", do: func(o objects, ctx context.Context, name string) error { return o.create(ctx, name) }, perRound: every},
	{name: "get", do: func(o objects, ctx context.Context, name string) error { return o.get(ctx, name) }, perRound: every},
	{name: "list", do: func(o objects, ctx context.Context, _ string) error { return o.list(ctx) }, perRound: some},
	// The watch cache of what is listed is behind etcd then.
	{name: "list after a write elsewhere", do: func(o objects, ctx context.Context, _ string) error { return o.list(ctx) }, perRound: some,
		first: func(o objects, ctx context.Context) error { return o.elsewhere(ctx) }},
	{name: "update", do: func(o objects, ctx context.Context, name string) error { return o.update(ctx, name) }, perRound: every},
	{name: "delete", do: func(o objects, ctx context.Context, name string) error { return o.remove(ctx, name) }, perRound: every},
}

func every(made int) int { return made }

func some(made int) int { return max(1, made/3) }

func newOperationsTable() *table {
	return newTable("kind", "operation", "side", "p50 ms", "ratio", "p99 ms", "ratio", "CPU ms", "ratio")
}

// compareOperations lets the sides take turns and adds each beside the first.
func compareOperations(ctx context.Context, t *table, k kind, sides []*side, rounds, made int) error {
	results, err := alternate(ctx, k, sides, rounds, made)
	if err != nil {
		return err
	}
	for _, op := range operations {
		base := results[op.name][0]
		for i, s := range results[op.name] {
			row := []string{k.name, op.name, sides[i].name, ms(s.p50()), "", ms(s.p99()), "", ms(s.cpu()), ""}
			if i > 0 {
				row[4], row[8] = times(s.ratio(base, block.p50)), times(s.ratio(base, block.cpuPerOperation))
				row[6] = times(float64(s.p99()) / float64(base.p99()))
			}
			t.add(row...)
		}
	}
	return nil
}

// alternate returns, for each operation, one series for each side. The first
// round warms up and does not count; who begins changes with each round.
func alternate(ctx context.Context, k kind, sides []*side, rounds, made int) (map[string][]series, error) {
	results := map[string][]series{}
	bound := make([]objects, len(sides))
	for i, s := range sides {
		bound[i] = k.in(s.client, s.namespace)
		secrets := s.client.CoreV1().Secrets(s.namespace)
		bound[i].elsewhere = func(ctx context.Context) error {
			_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "elsewhere-"}}, metav1.CreateOptions{})
			return err
		}
	}
	for round := range rounds + 1 {
		for _, op := range operations {
			if results[op.name] == nil {
				results[op.name] = make([]series, len(sides))
			}
			for offset := range sides {
				i := (offset + round) % len(sides)
				b, err := sides[i].block(ctx, op.perRound(made), func() error {
					if op.first == nil {
						return nil
					}
					return op.first(bound[i], ctx)
				}, func(n int) error {
					return op.do(bound[i], ctx, fmt.Sprintf("bench-%d-%d", round, n))
				})
				if err != nil {
					return nil, fmt.Errorf("%s of a %s at %s: %w", op.name, k.name, sides[i].name, err)
				}
				if round > 0 {
					results[op.name][i] = append(results[op.name][i], b)
				}
			}
		}
	}
	return results, nil
}

// block does an operation n times, one after the other, each after first, which is
// not timed. The CPU that the server
// takes by itself does not count; what it does afterwards, such as telling
// controllers, does.
func (s *side) block(ctx context.Context, n int, first func() error, do func(int) error) (b block, err error) {
	began, before, err := s.clocks()
	if err != nil {
		return b, err
	}
	for i := range n {
		if err := first(); err != nil {
			return b, err
		}
		start := time.Now()
		if err := do(i); err != nil {
			return b, err
		}
		b.latencies = append(b.latencies, time.Since(start))
		if s.rest > 0 {
			if err := pause(ctx, s.rest); err != nil {
				return b, err
			}
		}
	}
	if err := s.server.settle(ctx, gathered); err != nil {
		return b, err
	}
	ended, after, err := s.clocks()
	idle := time.Duration(s.server.idle * float64(ended.Sub(began)))
	b.cpu = max(0, after-before-idle) / time.Duration(n)
	return b, err
}

func (s *side) clocks() (time.Time, time.Duration, error) {
	cpu, err := cpuTime(s.server.PID())
	return time.Now(), cpu, err
}
