package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	largeCluster logicalcluster.Name = "large"
	smallCluster logicalcluster.Name = "small"
)

// servicesPart measures what a Service with an address takes to create, one after the other: in a logical cluster that has
// many, in another one, and in that other one while the first one makes more. Services are placed nowhere. A previous build takes
// part in blocks of its own between those of this one.
func servicesPart(ctx context.Context, l *lab, o options) error {
	builds := []build{{name: "now", bin: l.bin}}
	if o.previous != "" {
		builds = []build{{name: "previous", bin: o.previous}, builds[0]}
	}
	makers := make([]*serviceMaker, len(builds))
	for i, b := range builds {
		mine := &lab{dir: l.dir, bin: b.bin}
		defer mine.stop()
		var err error
		if makers[i], err = newServiceMaker(ctx, mine, b.name); err != nil {
			return err
		}
	}
	t := newTable("a Service is created in", "that logical cluster has", "build", "p50 ms", "ratio", "p99 ms", "ratio", "CPU ms each", "ratio")
	for _, size := range o.services {
		for _, m := range makers {
			if err := m.fill(ctx, size); err != nil {
				return err
			}
		}
		for _, what := range []struct {
			name   string
			in     logicalcluster.Name
			size   int
			beside bool
		}{
			{"the large one", largeCluster, size, false},
			{"the small one", smallCluster, 1, false},
			{fmt.Sprintf("the small one, while %d are at once in the large one", fillers), smallCluster, 1, true},
		} {
			results := make([]series, len(makers))
			for round := range o.rounds + 1 {
				for i, m := range makers {
					took, err := m.measure(ctx, what.in, o.made, what.beside)
					if err != nil {
						return err
					}
					if round > 0 { // the first one fills caches
						results[i] = append(results[i], took)
					}
				}
			}
			for i, s := range results {
				row := []string{what.name, fmt.Sprint(what.size), builds[i].name, ms(s.p50()), "", ms(s.p99()), "", ms(s.cpu()), ""}
				if i > 0 {
					row[4], row[6] = times(s.ratio(results[0], block.p50)), times(float64(s.p99())/float64(results[0].p99()))
					row[8] = times(s.ratio(results[0], block.cpuPerOperation))
				}
				t.add(row...)
			}
		}
	}
	t.print()
	return nil
}

// serviceMaker makes Services at a server.
type serviceMaker struct {
	*server
	kube kubernetes.Interface
	// filled is how many the large logical cluster has, made how many were made to be measured.
	filled, made int
}

func newServiceMaker(ctx context.Context, l *lab, name string) (*serviceMaker, error) {
	s, err := l.startAtoll(ctx, name)
	if err != nil {
		return nil, err
	}
	m := &serviceMaker{server: s}
	if m.kube, _, err = s.scoped(); err != nil {
		return nil, err
	}
	for _, cluster := range []logicalcluster.Name{largeCluster, smallCluster} {
		if err := s.makeLogicalCluster(ctx, cluster.String()); err != nil {
			return nil, err
		}
		if err := s.permitRecords(ctx, cluster.String()); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *serviceMaker) create(ctx context.Context, cluster logicalcluster.Name, name string) error {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := m.kube.CoreV1().Services(metav1.NamespaceDefault).Create(inCluster(ctx, cluster), s, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating service %s: %w", name, err)
	}
	return nil
}

func (m *serviceMaker) remove(ctx context.Context, cluster logicalcluster.Name, name string) error {
	if err := m.kube.CoreV1().Services(metav1.NamespaceDefault).Delete(inCluster(ctx, cluster), name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting service %s: %w", name, err)
	}
	return nil
}

// fill makes Services until the large logical cluster has that many.
func (m *serviceMaker) fill(ctx context.Context, size int) error {
	g, inside := errgroup.WithContext(ctx)
	g.SetLimit(fillers)
	for ; m.filled < size; m.filled++ {
		name := fmt.Sprintf("filled-%d", m.filled)
		g.Go(func() error { return m.create(inside, largeCluster, name) })
	}
	return g.Wait() //nolint:wrapcheck // it says what was made
}

// measure makes n Services, and removes them again when all is measured.
func (m *serviceMaker) measure(ctx context.Context, cluster logicalcluster.Name, n int, beside bool) (b block, err error) {
	var others *errgroup.Group
	stop := func() {}
	if beside {
		var inside context.Context
		inside, stop = context.WithCancel(ctx)
		others = m.makeMore(inside)
	}
	cpu, err := cpuTime(m.PID())
	if err != nil {
		stop()
		return b, err
	}
	first := m.made
	for ; m.made < first+n && err == nil; m.made++ {
		began := time.Now()
		err = m.create(ctx, cluster, fmt.Sprintf("made-%d", m.made))
		b.latencies = append(b.latencies, time.Since(began))
	}
	stop()
	if others != nil {
		if failed := others.Wait(); err == nil {
			err = failed
		}
	}
	if err != nil {
		return b, err
	}
	now, err := cpuTime(m.PID())
	if err != nil {
		return b, err
	}
	b.cpu = (now - cpu) / time.Duration(n)
	for i := first; i < m.made; i++ {
		if err := m.remove(ctx, cluster, fmt.Sprintf("made-%d", i)); err != nil {
			return b, err
		}
	}
	return b, nil
}

// makeMore has Services made in the large logical cluster, and removed, until ctx ends.
func (m *serviceMaker) makeMore(ctx context.Context) *errgroup.Group {
	g := &errgroup.Group{}
	for i := range fillers {
		g.Go(func() error {
			name := fmt.Sprintf("more-%d", i)
			for ctx.Err() == nil {
				if err := m.create(context.WithoutCancel(ctx), largeCluster, name); err != nil {
					return err
				}
				if err := m.remove(context.WithoutCancel(ctx), largeCluster, name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g
}
