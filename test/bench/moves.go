package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// podsOnANode is what a simulated node takes.
	podsOnANode = 100
	// drainTimeout and, for each unit, drainTimeoutEach end a drain that does not.
	drainTimeout     = 10 * time.Minute
	drainTimeoutEach = 2 * time.Second
)

// lookInterval is how often it is asked how far many units are, which takes time of the servers that are
// measured: all of them are listed.
func lookInterval(units int) time.Duration {
	return max(500*time.Millisecond, time.Duration(units)*time.Millisecond)
}

// mover has the clients of a server with two physical clusters between which units move.
type mover struct {
	*server
	kube     kubernetes.Interface
	own      versioned.Interface
	physical [2]*server
	below    [2]kubernetes.Interface
	// units is how many there are, made by add.
	units int
}

// movesPart moves one unit to and fro, and drains physical clusters of many.
func movesPart(ctx context.Context, l *lab, o options) error {
	ours, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	m := &mover{server: ours}
	for i, name := range []string{"east", "west"} {
		if m.physical[i], err = l.startStock(ctx, name, 3+o.drained[len(o.drained)-1]/podsOnANode); err != nil {
			return err
		}
		if err := ours.register(ctx, m.physical[i]); err != nil {
			return err
		}
		if m.below[i], err = m.physical[i].in(""); err != nil {
			return err
		}
	}
	for _, p := range m.physical {
		if err := ours.awaitReady(ctx, p.name); err != nil {
			return err
		}
	}
	if err := ours.makeLogicalCluster(ctx, benchCluster.String()); err != nil {
		return err
	}
	if err := ours.permitRecords(ctx, benchCluster.String()); err != nil {
		return err
	}
	if m.kube, err = ours.in(benchCluster); err != nil {
		return err
	}
	if _, m.own, err = ours.scoped(); err != nil {
		return err
	}
	none := int32(0)
	policy := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "at-once"}}
	policy.Spec.Move = &placementv1alpha1.MoveRules{DrainSeconds: &none}
	if _, err := m.own.PlacementV1alpha1().ClusterPlacementPolicies().Create(inCluster(ctx, benchCluster), policy, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making a policy without a drain time: %w", err)
	}
	if err := measureIdle(ctx, o.idleFor, ours); err != nil {
		return err
	}
	if err := m.moveOne(ctx, o.moves); err != nil {
		return err
	}
	return m.drainMany(ctx, o.drained)
}

// moveOne prints how long the moves of one unit take, from the edit on.
func (m *mover) moveOne(ctx context.Context, n int) error {
	const name = "moved"
	if err := m.addUnit(ctx, name, 3); err != nil {
		return err
	}
	if err := m.awaitAvailable(ctx, 1); err != nil {
		return err
	}
	placements := m.own.PlacementV1alpha1().Placements(name)
	ctx = inCluster(ctx, benchCluster)
	at, err := placements.Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading where the unit is: %w", err)
	}
	var removes, ends []time.Duration
	to := m.other(at.Spec.Decision.PhysicalClusters[0].Name)
	for range n {
		w, err := placements.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + placementv1alpha1.NamespaceUnit})
		if err != nil {
			return fmt.Errorf("watching the unit: %w", err)
		}
		began := time.Now()
		if err := m.pin(ctx, name, to); err != nil {
			return err
		}
		remove, end, err := follow(ctx, w.ResultChan(), began)
		w.Stop()
		if err != nil {
			return err
		}
		removes, ends, to = append(removes, remove), append(ends, end), m.other(to)
		if err := m.awaitSettled(ctx, name); err != nil {
			return err
		}
	}
	t := newTable("a move of a unit, from the edit to", "moves", "p50 ms", "p99 ms")
	t.add("the begin of the removals", fmt.Sprint(n), ms(median(removes)), ms(percentile(removes, 99)))
	t.add("the end of the last one", fmt.Sprint(n), ms(median(ends)), ms(percentile(ends, 99)))
	t.print()
	return m.kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}) //nolint:wrapcheck // it names the namespace
}

// awaitSettled waits until a unit is where it is to be and nowhere else. A physical Namespace ends
// five seconds after a move; who comes back before waits for that.
func (m *mover) awaitSettled(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("the unit did not settle in time"))
	defer cancel()
	for {
		p, err := m.own.PlacementV1alpha1().Placements(name).Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading where the unit is: %w", err)
		}
		if len(p.Status.Targets) == 1 && meta.IsStatusConditionTrue(p.Status.Conditions, placementv1alpha1.ConditionSettled) {
			return m.settle(ctx, gathered)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %+v", err, p.Status.Conditions)
		}
	}
}

// follow notes when a transition begins to remove, and when it is over.
func follow(ctx context.Context, events <-chan watch.Event, began time.Time) (removes, ends time.Duration, _ error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("the move did not end in time"))
	defer cancel()
	moved := false
	for {
		select {
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		case e, ok := <-events:
			p, isPlacement := e.Object.(*placementv1alpha1.Placement)
			if !ok || !isPlacement {
				return 0, 0, fmt.Errorf("the watch of the unit ended: %v", e.Object)
			}
			switch t := p.Spec.Transition; {
			case t == nil && moved:
				return removes, time.Since(began), nil
			case t != nil:
				if moved = true; removes == 0 && t.Phase != placementv1alpha1.TransitionStarting && t.Phase != placementv1alpha1.TransitionDraining {
					removes = time.Since(began)
				}
			}
		}
	}
}

// drainMany prints what a drain costs, and whether a Service was without endpoints while it
// lasted, for more and more units.
func (m *mover) drainMany(ctx context.Context, sizes []int) error {
	t := newTable("units", "drained in s", "ms a unit", "CPU ms a unit", "requests a unit", "most that moved", "most pods more", "services, never fewer than", "reports of slices")
	from, last := m.physical[0].name, requests{}
	for _, size := range sizes {
		if err := m.edit(ctx, m.other(from), func(s *fleetv1alpha1.PhysicalClusterSpec) { s.Unschedulable = true }); err != nil {
			return err
		}
		if err := m.add(ctx, size); err != nil {
			return err
		}
		if err := m.edit(ctx, m.other(from), func(s *fleetv1alpha1.PhysicalClusterSpec) { s.Unschedulable = false }); err != nil {
			return err
		}
		d, err := m.drain(ctx, from, size)
		if err != nil {
			return err
		}
		t.add(fmt.Sprint(size), fmt.Sprintf("%.1f", d.took.Seconds()), ms(d.took/time.Duration(size)), ms(d.cpu/time.Duration(size)),
			fmt.Sprintf("%.0f", d.requests.sum()), fmt.Sprint(d.moving), fmt.Sprint(d.pods-size),
			fmt.Sprintf("%d, %d ready", d.services, d.ready), fmt.Sprint(d.reports))
		from, last = m.other(from), d.requests
	}
	t.print()
	last.print("drain a unit of the last drain")
	return nil
}

// drained is what a drain took.
type drained struct {
	took, cpu time.Duration
	// requests are those of each unit.
	requests requests
	// moving and pods are the most units that moved, and pods that there were, at a time.
	moving, pods int
	// services were watched, which never had fewer than ready endpoints that were ready, in
	// so many reports.
	services, ready, reports int
}

// drain asks for a drain, waits until it is over, and takes the request back.
func (m *mover) drain(ctx context.Context, name string, size int) (d drained, err error) {
	if err := m.rest(ctx); err != nil {
		return d, err
	}
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	reach, err := watchReach(watched, m.kube)
	if err != nil {
		return d, err
	}
	asked, err := m.requests(ctx, scope.Root)
	if err != nil {
		return d, err
	}
	cpu, err := cpuTime(m.PID())
	if err != nil {
		return d, err
	}
	began := time.Now()
	if err := m.edit(ctx, name, func(s *fleetv1alpha1.PhysicalClusterSpec) { s.Drain.Requested = true }); err != nil {
		return d, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, drainTimeout+time.Duration(size)*drainTimeoutEach, errors.New("the drain did not end in time"))
	defer stop()
	for {
		pc, err := m.own.FleetV1alpha1().PhysicalClusters().Get(inCluster(ctx, scope.Root), name, metav1.GetOptions{})
		if err != nil {
			return d, fmt.Errorf("reading how far the drain is: %w", err)
		}
		if s := pc.Status.Drain; s != nil {
			d.moving = max(d.moving, int(s.Moving))
		}
		pods, err := m.pods(ctx)
		if err != nil {
			return d, err
		}
		d.pods = max(d.pods, pods)
		if meta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionDrained) {
			break
		}
		if err := pause(ctx, lookInterval(size)); err != nil {
			return d, fmt.Errorf("%w: %+v", err, pc.Status.Drain)
		}
	}
	d.took = time.Since(began)
	now, err := cpuTime(m.PID())
	if err != nil {
		return d, err
	}
	d.cpu = now - cpu
	all, err := m.requests(ctx, scope.Root)
	if err != nil {
		return d, err
	}
	d.requests = all.since(asked, size)
	d.services, d.ready, d.reports = reach.result()
	return d, m.edit(ctx, name, func(s *fleetv1alpha1.PhysicalClusterSpec) { s.Drain.Requested = false })
}

// pods counts those that run in the physical clusters for units, from their watch caches.
func (m *mover) pods(ctx context.Context) (n int, _ error) {
	for _, below := range m.below {
		list, err := below.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: "app=unit", FieldSelector: "status.phase=Running"})
		if err != nil {
			return 0, fmt.Errorf("counting pods: %w", err)
		}
		n += len(list.Items)
	}
	return n, nil
}

// add makes units until there are n, and waits until all are available.
func (m *mover) add(ctx context.Context, n int) error {
	g, inside := errgroup.WithContext(ctx)
	g.SetLimit(burstWriters)
	for ; m.units < n; m.units++ {
		name := fmt.Sprintf("unit-%d", m.units)
		g.Go(func() error { return m.addUnit(inside, name, 1) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return m.awaitAvailable(ctx, n)
}

// addUnit makes a namespace with a Deployment and a Service that leads to it.
func (m *mover) addUnit(ctx context.Context, name string, replicas int32) error {
	if _, err := m.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	labels := map[string]string{"app": "unit"}
	d := newDeployment(metav1.ObjectMeta{Name: "web", Labels: labels})
	d.Spec.Replicas, d.Spec.Paused = &replicas, false
	if _, err := m.kube.AppsV1().Deployments(name).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a deployment in %s: %w", name, err)
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}}}
	if _, err := m.kube.CoreV1().Services(name).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a service in %s: %w", name, err)
	}
	return nil
}

// awaitAvailable waits until n Deployments are as available as they want, and their
// Services lead to them.
func (m *mover) awaitAvailable(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout+time.Duration(n)*drainTimeoutEach, errors.New("not in time"))
	defer cancel()
	for {
		list, err := m.kube.AppsV1().Deployments("").List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: "app=unit"})
		if err != nil {
			return fmt.Errorf("listing deployments: %w", err)
		}
		available := 0
		for i := range list.Items {
			if d := &list.Items[i]; d.DeletionTimestamp == nil && d.Status.AvailableReplicas == *d.Spec.Replicas {
				available++
			}
		}
		reached := 0
		if available == n {
			slices, err := m.kube.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return fmt.Errorf("listing slices: %w", err)
			}
			for i := range slices.Items {
				reached += min(1, readyIn(&slices.Items[i]))
			}
		}
		if available == n && reached >= n {
			return nil
		}
		if err := pause(ctx, lookInterval(n)); err != nil {
			return fmt.Errorf("%d of %d units are available, %d are reached: %w", available, n, reached, err)
		}
	}
}

func (m *mover) pin(ctx context.Context, namespace, to string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, placementv1alpha1.PhysicalClusterAnnotation, to)
	if _, err := m.kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("pinning namespace %s to %s: %w", namespace, to, err)
	}
	return nil
}

// edit changes the spec of a physical cluster.
func (m *mover) edit(ctx context.Context, name string, change func(*fleetv1alpha1.PhysicalClusterSpec)) error {
	client := m.own.FleetV1alpha1().PhysicalClusters()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pc, err := client.Get(inCluster(ctx, scope.Root), name, metav1.GetOptions{})
		if err != nil {
			return err //nolint:wrapcheck // below
		}
		change(&pc.Spec)
		_, err = client.Update(inCluster(ctx, scope.Root), pc, metav1.UpdateOptions{})
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return fmt.Errorf("changing physical cluster %s: %w", name, err)
	}
	return nil
}

func (m *mover) other(name string) string {
	if name == m.physical[0].name {
		return m.physical[1].name
	}
	return m.physical[0].name
}
