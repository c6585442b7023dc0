package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
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
