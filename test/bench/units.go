package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// unitsEach is how many namespaces a logical cluster has.
	unitsEach = 1000
	// unitsSaid is after how many it is said how far it is.
	unitsSaid = 5000
)

// fill places units on some physical clusters, each a namespace with a Deployment of one small pod, and prints what that
// took. They stay.
func (p *placer) fill(ctx context.Context, physicalClusters, n int) error {
	if n == 0 {
		return nil
	}
	if err := p.register(ctx, physicalClusters); err != nil {
		return err
	}
	before, err := p.memory(ctx)
	if err != nil {
		return err
	}
	cpu, err := cpuTime(p.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	for from := 0; from < n; from += unitsEach {
		if err := p.fillOne(ctx, logicalcluster.Name(fmt.Sprintf("units-%d", from/unitsEach)), min(unitsEach, n-from)); err != nil {
			return err
		}
		if made := from + unitsEach; made%unitsSaid == 0 {
			fmt.Printf("%d units after %s\n", made, time.Since(began).Round(time.Second))
		}
	}
	took := time.Since(began)
	if err := p.settle(ctx, gathered); err != nil {
		return err
	}
	now, err := cpuTime(p.PID())
	if err != nil {
		return err
	}
	after, err := p.memory(ctx)
	if err != nil {
		return err
	}
	each := func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1024/float64(n)) }
	t := newTable("units placed", "ms each", "CPU ms each", "KiB of heap each", "KiB resident each", "MiB of heap", "MiB resident")
	t.add(fmt.Sprint(n), ms(took/time.Duration(n)), ms((now-cpu)/time.Duration(n)), each(after.heap-before.heap), each(after.rss-before.rss), mib(after.heap), mib(after.rss))
	t.print()
	return nil
}

// silenceTimeout bounds the wait for all physical clusters to be silent.
const silenceTimeout = 15 * time.Minute

// silence renews no Lease any more, and measures what it takes until all physical clusters are said to be silent, and
// how long somebody waits for a decision meanwhile.
func (p *placer) silence(ctx context.Context) (row []string, _ error) {
	ctx, stop := context.WithTimeoutCause(ctx, silenceTimeout, errors.New("not all physical clusters are silent in time"))
	defer stop()
	p.beating.Store(0)
	cpu, err := cpuTime(p.PID())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var waited []time.Duration
	for {
		all, err := p.own.FleetV1alpha1().PhysicalClusters().List(inCluster(ctx, scope.Root), metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading who is silent: %w", err)
		}
		if !slices.ContainsFunc(all.Items, func(c fleetv1alpha1.PhysicalCluster) bool {
			return !meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, fleetv1alpha1.ConditionReady, metav1.ConditionUnknown)
		}) {
			break
		}
		for range 10 {
			took, err := p.decide(ctx, 1, 1)
			if err != nil {
				return nil, err
			}
			waited = append(waited, took.latencies...)
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	took := time.Since(began)
	now, err := cpuTime(p.PID())
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%.0f", took.Seconds()), fmt.Sprintf("%.0f", (now - cpu).Seconds()), ms(median(waited)), ms(percentile(waited, 99))}, nil
}

// fillOne makes a logical cluster with units.
func (p *placer) fillOne(ctx context.Context, name logicalcluster.Name, n int) error {
	if err := p.makeLogicalCluster(ctx, name.String()); err != nil {
		return err
	}
	if err := p.permitRecords(ctx, name.String()); err != nil {
		return err
	}
	g, inside := errgroup.WithContext(inCluster(ctx, name))
	g.SetLimit(fillers)
	for i := range n {
		namespace := fmt.Sprintf("unit-%d", i)
		g.Go(func() error {
			if _, err := p.kube.CoreV1().Namespaces().Create(inside, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating namespace %s: %w", namespace, err)
			}
			d := newDeployment(metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}})
			d.Spec.Replicas, d.Spec.Paused = ptr.To[int32](1), false
			d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
			if _, err := p.kube.AppsV1().Deployments(namespace).Create(inside, d, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating a deployment in %s: %w", namespace, err)
			}
			return nil
		})
	}
	return g.Wait() //nolint:wrapcheck // each names what failed
}
