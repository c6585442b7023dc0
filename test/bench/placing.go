package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// placer has the clients of a server with physical clusters that exist as objects only: what is
// measured is what the server does before an answer.
type placer struct {
	*server
	kube kubernetes.Interface
	own  versioned.Interface
	// clusters is how many there are, of which beating have been heard of.
	clusters int
	beating  atomic.Int64
}

func newPlacer(ctx context.Context, l *lab, name string) (*placer, error) {
	s, err := l.startAtoll(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &placer{server: s}
	if p.kube, p.own, err = s.scoped(); err != nil {
		return nil, err
	}
	go p.beat(inCluster(ctx, scope.Root))
	return p, s.makeLogicalCluster(ctx, benchCluster.String())
}

// beatInterval is well within the time after which a physical cluster counts as silent.
const beatInterval = 15 * time.Second

// beat renews the Leases of all physical clusters, as their syncers would, spread over the interval.
func (p *placer) beat(ctx context.Context) {
	for ctx.Err() == nil {
		n := int(p.beating.Load())
		for i := range n {
			if p.beating.Load() == 0 {
				break
			}
			if p.renew(ctx, physicalClusterName(i)) != nil { // the server has ended; what else there is shows in the figures
				return
			}
			if pause(ctx, beatInterval/time.Duration(n)) != nil {
				return
			}
		}
		if n == 0 && pause(ctx, time.Second) != nil {
			return
		}
	}
}

// renew renews one Lease, or makes it.
func (p *placer) renew(ctx context.Context, name string) error {
	leases, now := p.kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace), metav1.NowMicro()
	_, err := leases.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro)), metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err //nolint:wrapcheck // nobody reads it
	}
	_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}, metav1.CreateOptions{})
	return err //nolint:wrapcheck // nobody reads it
}

func physicalClusterName(i int) string { return fmt.Sprintf("c%04d", i) }

// placingPart measures what it takes to place with more and more physical clusters, beside the same
// creates at a stock server.
func placingPart(ctx context.Context, l *lab, o options) error {
	stock, err := l.startStock(ctx, "stock", 1)
	if err != nil {
		return err
	}
	p, err := newPlacer(ctx, l, "atoll")
	if err != nil {
		return err
	}
	reference, err := stock.in("")
	if err != nil {
		return err
	}
	if err := p.fill(ctx, o.fleets[0], o.units); err != nil {
		return err
	}
	t := newTable("a create of a Deployment", "physical clusters", "p50 ms", "ratio", "p99 ms", "ratio", "CPU ms")
	first, err := timeCreates(ctx, stock, reference, "at a stock server", o.placed, newNamespace)
	if err != nil {
		return err
	}
	t.add(first.row(first, "none")...)
	for _, size := range o.fleets {
		if err := p.register(ctx, size); err != nil {
			return err
		}
		inside := inCluster(ctx, benchCluster)
		for _, c := range []struct {
			name string
			in   func(i int) (string, bool)
		}{
			{"the first of a unit, which decides", newNamespace},
			{"in a unit that is placed", oneNamespace},
		} {
			got, err := timeCreates(inside, p.server, p.kube, c.name, o.placed, c.in)
			if err != nil {
				return err
			}
			t.add(got.row(first, fmt.Sprint(size))...)
		}
	}
	t.print()
	return nil
}

// newNamespace and oneNamespace say in which namespace something is made, and whether that is made for it.
func newNamespace(i int) (string, bool) { return fmt.Sprintf("unit-%d", i), true }
func oneNamespace(i int) (string, bool) { return "unit", i == 0 }

// creates are some of them.
type creates struct {
	name      string
	latencies []time.Duration
	cpu       time.Duration
}

func (c creates) row(base creates, clusters string) []string {
	p50, p99 := median(c.latencies), percentile(c.latencies, 99)
	return []string{c.name, clusters, ms(p50), times(float64(p50) / float64(median(base.latencies))), ms(p99), times(float64(p99) / float64(percentile(base.latencies, 99))), ms(c.cpu)}
}

// timeCreates makes Deployments one after the other, and throws their namespaces away.
func timeCreates(ctx context.Context, s *server, kube kubernetes.Interface, name string, n int, in func(int) (string, bool)) (creates, error) {
	out := creates{name: name}
	run := runs.Add(1)
	var made []string
	for i := range n {
		namespace, isNew := in(i)
		namespace = fmt.Sprintf("%s-%d", namespace, run)
		if isNew {
			if _, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
				return out, fmt.Errorf("creating namespace %s: %w", namespace, err)
			}
			made = append(made, namespace)
		}
		if err := s.settle(ctx, gathered); err != nil {
			return out, err
		}
		cpu, err := cpuTime(s.PID())
		if err != nil {
			return out, err
		}
		d := newDeployment(metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}})
		began := time.Now()
		if _, err := kube.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return out, fmt.Errorf("creating a deployment in %s: %w", namespace, err)
		}
		out.latencies = append(out.latencies, time.Since(began))
		now, err := cpuTime(s.PID())
		if err != nil {
			return out, err
		}
		out.cpu += (now - cpu) / time.Duration(n)
	}
	for _, namespace := range made {
		if err := kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
			return out, fmt.Errorf("deleting namespace %s: %w", namespace, err)
		}
	}
	return out, nil
}

// runs numbers the namespaces of runs.
var runs atomic.Int32

// register makes physical clusters until there are n.
func (p *placer) register(ctx context.Context, n int) error {
	g, inside := errgroup.WithContext(inCluster(ctx, scope.Root))
	g.SetLimit(fillers)
	client := p.own.FleetV1alpha1().PhysicalClusters()
	for ; p.clusters < n; p.clusters++ {
		name := physicalClusterName(p.clusters)
		g.Go(func() error {
			if err := p.renew(inside, name); err != nil {
				return fmt.Errorf("renewing the Lease of %s: %w", name, err)
			}
			pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": name[:4]}}}
			if _, err := client.Create(inside, pc, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("registering %s: %w", name, err)
			}
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the server says that nothing is heard of it
				pc, err := client.Get(inside, name, metav1.GetOptions{})
				if err != nil {
					return err //nolint:wrapcheck // below
				}
				pc.Status = reported()
				_, err = client.UpdateStatus(inside, pc, metav1.UpdateOptions{})
				return err //nolint:wrapcheck // below
			})
			if err != nil {
				return fmt.Errorf("reporting %s: %w", name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err //nolint:wrapcheck // each names what failed
	}
	p.beating.Store(int64(n))
	return nil
}

// reported is the status of an empty physical cluster.
func reported() fleetv1alpha1.PhysicalClusterStatus {
	classes := func(n int) *fleetv1alpha1.ReportedNames {
		out := &fleetv1alpha1.ReportedNames{}
		for i := range n {
			out.Names = append(out.Names, fmt.Sprintf("class-%d", i))
		}
		return out
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("11000")}
	s := fleetv1alpha1.PhysicalClusterStatus{
		Version: "v1.35.0", Nodes: 100, Capacity: capacity, Allocatable: capacity,
		StorageClasses: classes(3).Names, DefaultStorageClass: "class-0", RuntimeHandlers: classes(2), IngressClasses: classes(2), PriorityClasses: classes(5),
	}
	for _, kind := range workload.Builtin().All() {
		s.APIs = append(s.APIs, kind.API())
	}
	for i := range 60 { // as operators bring
		s.APIs = append(s.APIs, fmt.Sprintf("operator-%d.example.com/v1/widgets", i))
	}
	at := metav1.Now()
	for _, of := range []string{fleetv1alpha1.ConditionReady, fleetv1alpha1.ConditionSyncing} {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: of, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonHeartbeat, Message: "as it is said", LastTransitionTime: at})
	}
	return s
}
