package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// buildsPart compares what a placed Deployment costs this build and a previous one:
// each has a physical cluster of its own, and they alternate.
func buildsPart(ctx context.Context, l *lab, o options) error {
	if o.previous == "" {
		return errors.New("-previous: name the directory of the binaries of a previous build")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	builds := []build{{name: "previous", bin: o.previous}, {name: "now", bin: l.bin}}
	ways := make([]*buildWay, len(builds))
	for i, b := range builds {
		mine := &lab{dir: l.dir, bin: b.bin}
		defer mine.stop()
		defer cancel() // observers end before what they watch
		var err error
		if ways[i], err = newBuildWay(ctx, mine, b.name); err != nil {
			return err
		}
	}
	for _, w := range ways {
		if err := measureIdle(ctx, o.idleFor, w.server, w.below[0]); err != nil {
			return err
		}
	}
	results := make(map[string][]series)
	counted := make(map[string][]requests)
	for round := range o.rounds + 1 {
		for _, step := range buildSteps(o) {
			if results[step.name] == nil {
				results[step.name], counted[step.name] = make([]series, len(ways)), make([]requests, len(ways))
			}
			for offset := range ways {
				i := (offset + round) % len(ways)
				profiled := func() error { return nil }
				if round == 1 && o.profiles != "" {
					profiled = ways[i].server.profileCPU(ctx, o.profiles, fmt.Sprintf("%s-%s.cpu.pb.gz", ways[i].name, step.file), step.profile)
				}
				j, err := step.run(ctx, ways[i], fmt.Sprint(step.batch, "-", round))
				if err == nil {
					err = profiled()
				}
				if err != nil {
					return fmt.Errorf("%s, %s: %w", step.name, ways[i].name, err)
				}
				if round > 0 {
					results[step.name][i] = append(results[step.name][i], block{latencies: j.times, cpu: j.cpu})
					counted[step.name][i] = j.requests
				}
			}
		}
	}
	printBuilds(o, ways, results, counted)
	return nil
}

func printBuilds(o options, ways []*buildWay, results map[string][]series, counted map[string][]requests) {
	t := newTable("what", "build", "p50 ms", "ratio", "CPU ms each", "ratio")
	for _, step := range buildSteps(o) {
		base := results[step.name][0]
		for i, s := range results[step.name] {
			row := []string{step.name, ways[i].name, ms(s.p50()), "", ms(s.cpu()), ""}
			if i > 0 {
				row[3], row[5] = times(s.ratio(base, block.p50)), times(s.ratio(base, block.cpuPerOperation))
			}
			t.add(row...)
		}
	}
	t.print()
	if !o.requests {
		return
	}
	for _, step := range buildSteps(o) {
		for i, r := range counted[step.name] {
			r.print(fmt.Sprintf("the server for one object: %s, %s", step.name, ways[i].name))
		}
	}
}

// buildStep is something that is done to n objects by each build in each round.
type buildStep struct {
	name, batch, file string
	profile           time.Duration
	run               func(ctx context.Context, w *buildWay, batch string) (journey, error)
}

func buildSteps(o options) []buildStep {
	create := func(n, writers int) func(context.Context, *buildWay, string) (journey, error) {
		return func(ctx context.Context, w *buildWay, batch string) (journey, error) {
			return w.each(ctx, batch, n, writers, w.down, w.make)
		}
	}
	update := func(n, writers int) func(context.Context, *buildWay, string) (journey, error) {
		return func(ctx context.Context, w *buildWay, batch string) (journey, error) {
			return w.each(ctx, batch, n, writers, w.changed, w.change)
		}
	}
	remove := func(n, writers int) func(context.Context, *buildWay, string) (journey, error) {
		return func(ctx context.Context, w *buildWay, batch string) (journey, error) {
			return w.each(ctx, batch, n, writers, w.gone, w.remove)
		}
	}
	return []buildStep{
		{"created, one after the other", "single", "single", 4 * time.Second, create(o.single, 1)},
		{"updated, one after the other", "single", "single-update", 4 * time.Second, update(o.single, 1)},
		{"created at once", "burst", "burst", 4 * time.Second, create(o.burst, burstWriters)},
		{"updated at once", "burst", "burst-update", 4 * time.Second, update(o.burst, burstWriters)},
		{"deleted, one after the other", "single", "single-delete", 4 * time.Second, remove(o.single, 1)},
		{"deleted at once", "burst", "burst-delete", 4 * time.Second, remove(o.burst, burstWriters)},
	}
}

// buildWay is the way through a build.
type buildWay struct {
	way
	// changed sees updates arrive below, gone sees objects go above: they are gone below then.
	changed, gone *observer

	mu   sync.Mutex
	made map[string]*appsv1.Deployment
}

func newBuildWay(ctx context.Context, l *lab, name string) (*buildWay, error) {
	ours, err := l.startAtoll(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := l.startStock(ctx, name+"-physical", 1)
	if err != nil {
		return nil, err
	}
	if err := ours.register(ctx, p); err != nil {
		return nil, err
	}
	if err := ours.awaitReady(ctx, p.name); err != nil {
		return nil, err
	}
	if err := ours.makeLogicalCluster(ctx, benchCluster.String()); err != nil {
		return nil, err
	}
	w := &buildWay{way: way{name: name, server: ours, below: []*server{p}}, made: map[string]*appsv1.Deployment{}}
	if w.from, err = ours.in(benchCluster); err != nil {
		return nil, err
	}
	below, err := p.in("")
	if err != nil {
		return nil, err
	}
	if err := w.makeNamespaces(ctx); err != nil {
		return nil, err
	}
	if w.down, err = observe(ctx, exists, below); err != nil {
		return nil, err
	}
	if w.changed, err = observe(ctx, isChanged, below); err != nil {
		return nil, err
	}
	w.gone, err = observe(ctx, isGone, w.from)
	return w, err
}

func (w *buildWay) make(ctx context.Context, name string, i int) error {
	d := newDeployment(metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}})
	made, err := w.from.AppsV1().Deployments(w.namespaces[i%len(w.namespaces)]).Create(ctx, d, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating deployment %s: %w", name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made[name] = made
	return nil
}

// changedImage is what an update changes.
const changedImage = "nginx:1.29"

func isChanged(_ watch.EventType, d *appsv1.Deployment) bool {
	return d.Spec.Template.Spec.Containers[0].Image == changedImage
}

func (w *buildWay) remove(ctx context.Context, name string, _ int) error {
	w.mu.Lock()
	d := w.made[name]
	w.mu.Unlock()
	if err := w.from.AppsV1().Deployments(d.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting deployment %s: %w", name, err)
	}
	return nil
}

func (w *buildWay) change(ctx context.Context, name string, _ int) error {
	w.mu.Lock()
	d := w.made[name].DeepCopy()
	w.mu.Unlock()
	d.ResourceVersion = "" // its status was written since
	d.Spec.Template.Spec.Containers[0].Image = changedImage
	if _, err := w.from.AppsV1().Deployments(d.Namespace).Update(ctx, d, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating deployment %s: %w", name, err)
	}
	return nil
}
