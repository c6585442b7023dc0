package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// emptied namespaces are deleted at once; each has so many objects of each of
	// four kinds.
	emptied      = 20
	objectsInOne = 3
)

// namespacesPart compares how long it takes until namespaces that are deleted at
// once are gone: at a stock server, in a logical cluster where nothing is placed, and
// in one whose Deployments run at that stock server.
func namespacesPart(ctx context.Context, l *lab, o options) error {
	stock, err := l.startStock(ctx, "east", 3)
	if err != nil {
		return err
	}
	ours, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	if err := ours.makeLogicalCluster(ctx, benchCluster.String()); err != nil {
		return err
	}
	if err := ours.register(ctx, stock); err != nil {
		return err
	}
	if err := ours.awaitReady(ctx, stock.name); err != nil {
		return err
	}
	if err := measureIdle(ctx, o.idleFor, stock, ours); err != nil {
		return err
	}
	t := newTable("namespaces at once", "side", "until all are gone, s", "ratio", "CPU ms each", "ratio")
	for _, n := range []int{1, emptied} {
		var base emptying
		for i, side := range []struct {
			name    string
			server  *server
			cluster logicalcluster.Name
		}{{"stock", stock, ""}, {"atoll, root, where nothing is placed", ours, scope.Root}, {"atoll, placed", ours, benchCluster}} {
			client, err := side.server.in(side.cluster)
			if err != nil {
				return err
			}
			e, err := empty(ctx, side.server, client, n)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			row := []string{fmt.Sprint(n), side.name, fmt.Sprintf("%.1f", e.took.Seconds()), "", ms(e.cpu), ""}
			if i == 0 {
				base = e
			} else {
				row[3], row[5] = times(e.took.Seconds()/base.took.Seconds()), times(e.cpu.Seconds()/base.cpu.Seconds())
			}
			t.add(row...)
		}
	}
	t.print()
	return nil
}

// emptying is how long it took until the last of some namespaces was gone, and what
// each cost the server.
type emptying struct{ took, cpu time.Duration }

// empty fills n namespaces, deletes them, and waits until they are gone.
func empty(ctx context.Context, s *server, client kubernetes.Interface, n int) (e emptying, err error) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("emptied-%d-%d", n, i)
		if err := fill(ctx, client, names[i]); err != nil {
			return e, err
		}
	}
	if err := s.rest(ctx); err != nil {
		return e, err
	}
	before, err := cpuTime(s.PID())
	if err != nil {
		return e, err
	}
	start := time.Now()
	g, inside := errgroup.WithContext(ctx)
	for _, name := range names {
		g.Go(func() error {
			if err := client.CoreV1().Namespaces().Delete(inside, name, metav1.DeleteOptions{}); err != nil {
				return fmt.Errorf("deleting namespace %s: %w", name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return e, err
	}
	if err := awaitGone(ctx, client, names); err != nil {
		return e, err
	}
	e.took = time.Since(start)
	after, err := cpuTime(s.PID())
	e.cpu = (after - before) / time.Duration(n)
	return e, err
}

// fill makes a namespace with some of what applications have.
func fill(ctx context.Context, client kubernetes.Interface, name string) error {
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	var failures []error
	for i := range objectsInOne {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("app-%d", i), Labels: map[string]string{"app": "bench"}}
		_, err := client.AppsV1().Deployments(name).Create(ctx, newDeployment(meta), metav1.CreateOptions{})
		failures = append(failures, err)
		_, err = client.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
		failures = append(failures, err)
		_, err = client.CoreV1().Secrets(name).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
		failures = append(failures, err)
		_, err = client.CoreV1().Services(name).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: meta.Labels, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		failures = append(failures, err)
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("filling namespace %s: %w", name, err)
	}
	return nil
}

// awaitGone looks every 50 ms, for five minutes at most.
func awaitGone(ctx context.Context, client kubernetes.Interface, names []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("not in time"))
	defer cancel()
	for {
		list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing namespaces: %w", err)
		}
		there := map[string]bool{}
		for _, ns := range list.Items {
			there[ns.Name] = true
		}
		left := 0
		for _, name := range names {
			if there[name] {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %d namespaces: %w", left, err)
		}
	}
}
