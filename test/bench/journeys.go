package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// burstWriters make the objects that go at once.
	burstWriters = 16
	// firsts is how many namespaces get their first object, which is when they
	// are placed.
	firsts = 20

	benchCluster = logicalcluster.Name("bench")
)

// journeysPart measures the ways down and up between one server and two
// physical clusters, and what placed objects cost.
func journeysPart(ctx context.Context, l *lab, o options) error {
	ours, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	var physical []*server
	for _, name := range []string{"east", "west"} {
		p, err := l.startStock(ctx, name, 3)
		if err != nil {
			return err
		}
		if err := ours.register(ctx, p); err != nil {
			return err
		}
		physical = append(physical, p)
	}
	for _, p := range physical {
		if err := ours.awaitReady(ctx, p.name); err != nil {
			return err
		}
	}
	if err := ours.makeLogicalCluster(ctx, benchCluster.String()); err != nil {
		return err
	}
	if err := measureIdle(ctx, o.idleFor, append(physical, ours)...); err != nil {
		return err
	}
	if err := compareJourneys(ctx, ours, physical, o); err != nil {
		return err
	}
	return comparePlaced(ctx, l, ours, o)
}

// register makes a PhysicalCluster that the server reaches with a kubeconfig.
func (s *server) register(ctx context.Context, p *server) error {
	kube, own, err := s.scoped()
	if err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(p.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of %s: %w", p.name, err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: p.name + "-kubeconfig"},
		Data:       map[string][]byte{fleetv1alpha1.KubeconfigKey: kubeconfig},
	}
	root := inCluster(ctx, scope.Root)
	if _, err := kube.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).Create(root, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("storing the kubeconfig of %s: %w", p.name, err)
	}
	cluster := &fleetv1alpha1.PhysicalCluster{
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		Spec: fleetv1alpha1.PhysicalClusterSpec{Connection: fleetv1alpha1.Connection{
			Type:                fleetv1alpha1.ConnectionPush,
			KubeconfigSecretRef: &fleetv1alpha1.SecretReference{Namespace: fleetv1alpha1.LeaseNamespace, Name: secret.Name},
		}},
	}
	if _, err := own.FleetV1alpha1().PhysicalClusters().Create(root, cluster, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("registering %s: %w", p.name, err)
	}
	return nil
}

func (s *server) awaitReady(ctx context.Context, name string) error {
	_, own, err := s.scoped()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("not in time"))
	defer cancel()
	for {
		p, err := own.FleetV1alpha1().PhysicalClusters().Get(inCluster(ctx, scope.Root), name, metav1.GetOptions{})
		if err == nil && meta.IsStatusConditionTrue(p.Status.Conditions, fleetv1alpha1.ConditionReady) {
			return nil
		}
		if waited := pause(ctx, 100*time.Millisecond); waited != nil {
			return fmt.Errorf("waiting for physical cluster %s to be Ready: %w", name, errors.Join(waited, err))
		}
	}
}

// way is where Deployments are made and where they arrive.
type way struct {
	// name distinguishes the objects of one way from those of another.
	name   string
	from   kubernetes.Interface
	server *server
	// below are the physical clusters behind the server.
	below      []*server
	namespaces []string
	down, up   *observer
}

// compareJourneys prints the ways through Atoll beside a watch at a physical
// cluster of what is written there.
func compareJourneys(ctx context.Context, ours *server, physical []*server, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var below []kubernetes.Interface
	for _, p := range physical {
		client, err := p.in("")
		if err != nil {
			return err
		}
		below = append(below, client)
	}
	above, err := ours.in(benchCluster)
	if err != nil {
		return err
	}
	through := way{name: "atoll", from: above, server: ours, below: physical}
	direct := way{name: "direct", from: below[0], server: physical[0]}
	for _, w := range []*way{&through, &direct} {
		if err := w.makeNamespaces(ctx); err != nil {
			return err
		}
	}
	if through.down, err = observe(ctx, exists, below...); err != nil {
		return err
	}
	if through.up, err = observe(ctx, marked, above); err != nil {
		return err
	}
	if direct.down, err = observe(ctx, exists, below[0]); err != nil {
		return err
	}
	if direct.up, err = observe(ctx, marked, below[0]); err != nil {
		return err
	}
	return through.printBeside(ctx, &direct, o)
}

// printBeside prints what happened on the way w beside the same on base.
func (w *way) printBeside(ctx context.Context, base *way, o options) error {
	t := newTable("what", "side", "objects", "p50 ms", "p99 ms", "all, ms", "CPU ms each", "below")
	first, err := w.firstObjects(ctx)
	if err != nil {
		return err
	}
	t.add(first.row("first object of a namespace, to the physical cluster", "atoll")...)
	for _, size := range []struct {
		batch            string
		objects, writers int
	}{{"single", o.single, 1}, {"burst", o.burst, burstWriters}} {
		var down, up [][]string
		for _, side := range []struct {
			name string
			*way
		}{{"stock, written and watched there", base}, {"atoll", w}} {
			profiled := func() error { return nil }
			if side.way == w {
				profiled = w.server.profileCPU(ctx, o.profiles, size.batch+".cpu.pb.gz", 15*time.Second)
			}
			created, err := side.each(ctx, size.batch, size.objects, size.writers, side.down, side.create)
			if err != nil {
				return err
			}
			if err := profiled(); err != nil {
				return err
			}
			down = append(down, created.row("apply, to the physical cluster", side.name))
			if side.way == w && o.requests {
				created.print("apply, " + size.batch)
			}
			reported, err := side.each(ctx, size.batch, size.objects, size.writers, side.up, side.report)
			if err != nil {
				return err
			}
			if side.way == w && o.requests {
				reported.print("status, " + size.batch)
			}
			up = append(up, reported.row("status there, to the status above", side.name))
		}
		for _, row := range append(down, up...) {
			t.add(row...)
		}
	}
	t.print()
	return nil
}

func (w *way) makeNamespaces(ctx context.Context) error {
	for i := range 2 {
		name := fmt.Sprintf("journeys-%d", i)
		if err := w.makeNamespace(ctx, name); err != nil {
			return err
		}
		w.namespaces = append(w.namespaces, name)
	}
	return nil
}

func (w *way) makeNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.from.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// firstObjects makes one Deployment in each of many new namespaces, and in those
// of the way, so that they are placed.
func (w *way) firstObjects(ctx context.Context) (journey, error) {
	namespaces := slices.Clone(w.namespaces)
	for i := range firsts {
		namespaces = append(namespaces, fmt.Sprintf("first-%d", i))
		if err := w.makeNamespace(ctx, namespaces[len(namespaces)-1]); err != nil {
			return journey{}, err
		}
	}
	return w.each(ctx, "first", len(namespaces), 1, w.down, func(ctx context.Context, name string, i int) error {
		return w.createIn(ctx, namespaces[i], name)
	})
}

// journey is how long each object took, and all of them together, and what one
// cost.
type journey struct {
	times      []time.Duration
	all        time.Duration
	cpu, below time.Duration
	// requests to the server, and to the physical clusters behind it.
	requests, requestsBelow requests
}

func (j journey) print(what string) {
	j.requests.print("the server for one object of: " + what)
	j.requestsBelow.print("the physical clusters for one object of: " + what)
}

// each sends n objects on their way and notes how long after the beginning of
// its request the observer sees each. A single writer waits for that and lets
// the server come to rest before the next; several do not wait.
func (w *way) each(ctx context.Context, batch string, n, writers int, o *observer, send func(ctx context.Context, name string, i int) error) (j journey, err error) {
	names, began := make([]string, n), make([]time.Time, n)
	if err := w.server.rest(ctx); err != nil {
		return j, err
	}
	finish, err := w.account(ctx, n)
	if err != nil {
		return j, err
	}
	start := time.Now()
	g, inside := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range n {
		names[i] = fmt.Sprintf("%s-%s-%d", w.name, batch, i)
		g.Go(func() error {
			began[i] = time.Now()
			if err := send(inside, names[i], i); err != nil || writers > 1 {
				return err
			}
			if _, err := o.await(inside, names[i]); err != nil {
				return err
			}
			return w.server.settle(inside, briefly)
		})
	}
	if err := g.Wait(); err != nil {
		return j, err
	}
	for i, name := range names {
		s, err := o.await(ctx, name)
		if err != nil {
			return j, err
		}
		j.times = append(j.times, s.at.Sub(began[i]))
		j.all = max(j.all, s.at.Sub(start))
	}
	return j, finish(&j)
}

// account notes what n objects cost from now until the servers have come to rest.
func (w *way) account(ctx context.Context, n int) (finish func(*journey) error, err error) {
	used := func() (cpu, below time.Duration, err error) {
		for _, s := range append([]*server{w.server}, w.below...) {
			t, err := cpuTime(s.PID())
			if err != nil {
				return 0, 0, err
			}
			if s == w.server {
				cpu = t
			} else {
				below += t
			}
		}
		return cpu, below, nil
	}
	count := func() (asked, below requests, err error) {
		if len(w.below) == 0 { // not one of ours
			return nil, nil, nil
		}
		below = requests{}
		for _, s := range w.below {
			of, err := s.requests(ctx, "")
			if err != nil {
				return nil, nil, err
			}
			below.add(of)
		}
		asked, err = w.server.requests(ctx, scope.Root)
		return asked, below, err
	}
	asked, askedBelow, err := count()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	cpu, below, err := used()
	if err != nil {
		return nil, err
	}
	return func(j *journey) error {
		if err := w.server.settle(ctx, gathered); err != nil {
			return err
		}
		cpuNow, belowNow, err := used()
		if err != nil {
			return err
		}
		idle := func(s *server) time.Duration { return time.Duration(s.idle * float64(time.Since(start))) }
		j.cpu, j.below = cpuNow-cpu-idle(w.server), belowNow-below
		for _, s := range w.below {
			j.below -= idle(s)
		}
		j.cpu, j.below = max(0, j.cpu)/time.Duration(n), max(0, j.below)/time.Duration(n)
		askedNow, askedBelowNow, err := count()
		j.requests, j.requestsBelow = askedNow.since(asked, n), askedBelowNow.since(askedBelow, n)
		return err
	}, nil
}

// create makes a Deployment in one of the namespaces of the way.
func (w *way) create(ctx context.Context, name string, i int) error {
	return w.createIn(ctx, w.namespaces[i%len(w.namespaces)], name)
}

func (w *way) createIn(ctx context.Context, namespace, name string) error {
	d := newDeployment(metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}})
	if _, err := w.from.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating deployment %s: %w", name, err)
	}
	return nil
}

// report changes the status where the Deployment arrived.
func (w *way) report(ctx context.Context, name string, _ int) error {
	there, err := w.down.await(ctx, name)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","reason":"Marked","message":"by the benchmark"}]}}`, markType)
	_, err = there.by.AppsV1().Deployments(there.namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("changing the status of deployment %s: %w", name, err)
	}
	return nil
}

func (j journey) row(what, side string) []string {
	all := ""
	if len(j.times) > 0 {
		all = ms(j.all)
	}
	below := ""
	if j.below > 0 {
		below = ms(j.below)
	}
	return []string{what, side, fmt.Sprint(len(j.times)), ms(median(j.times)), ms(percentile(j.times, 99)), all, ms(j.cpu), below}
}

// comparePlaced compares with a stock server where objects are placed: what the
// syncer and the summarizer do for an object is part of its CPU.
func comparePlaced(ctx context.Context, l *lab, ours *server, o options) error {
	stock, err := l.startStock(ctx, "stock", 1)
	if err != nil {
		return err
	}
	if err := measureIdle(ctx, o.idleFor, stock, ours); err != nil {
		return err
	}
	var sides []*side
	for _, place := range []struct {
		name      string
		server    *server
		cluster   logicalcluster.Name
		namespace string
	}{
		{"stock", stock, "", "placed"},
		{"atoll, placed", ours, benchCluster, "placed"},
	} {
		s, err := newSide(ctx, place.name, place.server, place.cluster, place.namespace)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	for _, run := range []struct {
		title string
		rest  time.Duration
		made  int
	}{
		{"Without a pause: what was written before is still being synced.", 0, o.made},
		{fmt.Sprintf("One operation in %s: as an idle fleet answers.", rested), rested, max(1, o.made/5)},
	} {
		for _, s := range sides {
			s.rest = run.rest
		}
		t := newOperationsTable()
		if err := compareOperations(ctx, t, deploymentKind, sides, max(1, o.rounds/2), run.made); err != nil {
			return err
		}
		fmt.Printf("%s\n\n", run.title)
		t.print()
	}
	return nil
}

// rested is longer than it takes to sync an object and its status.
const rested = 150 * time.Millisecond
