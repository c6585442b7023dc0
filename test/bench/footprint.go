package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// footprintPart compares what this build holds in memory with what a previous one does,
// in one run: empty, with logical clusters that are in use, and after a restart, when
// watch caches remember no events.
func footprintPart(ctx context.Context, l *lab, o options) error {
	builds := []build{{name: "now", bin: l.bin}}
	if o.previous != "" {
		builds = []build{{name: "previous", bin: o.previous}, builds[0]}
	}
	t := newTable("build", "empty: goroutines", "heap MiB", "RSS MiB", "of it anonymous", "objects of a logical cluster in use",
		fmt.Sprintf("KiB each, the first %d", o.tenants), "the next as many", "all, after a restart")
	for _, b := range builds {
		row, err := b.footprint(ctx, &lab{dir: l.dir, bin: b.bin}, o)
		if err != nil {
			return err
		}
		t.add(row...)
	}
	t.print()
	return nil
}

// build is a build of the server.
type build struct{ name, bin string }

func (b build) footprint(ctx context.Context, l *lab, o options) ([]string, error) {
	defer l.stop()
	s, err := l.startAtoll(ctx, b.name)
	if err != nil {
		return nil, err
	}
	if err := s.measureIdle(ctx, o.idleFor); err != nil {
		return nil, err
	}
	resting, err := residence(s.PID()) // before collections that nobody asks a server for
	if err != nil {
		return nil, err
	}
	empty, err := s.memory(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.saveProfile(ctx, o.profiles, "goroutine", b.name+"-empty.goroutines.pb.gz"); err != nil {
		return nil, err
	}
	row := []string{b.name, fmt.Sprint(empty.goroutines), mib(empty.heap), fmt.Sprint(resting.all >> 20), fmt.Sprint(resting.anonymous >> 20)}
	t := &tenants{population: &population{}, server: s}
	if t.kube, t.own, err = s.scoped(); err != nil {
		return nil, err
	}
	before := empty
	for i := range 2 {
		if err := t.fill(ctx, (i+1)*o.tenants); err != nil {
			return nil, err
		}
		if i == 0 {
			objects, err := t.objects(ctx)
			if err != nil {
				return nil, err
			}
			row = append(row, fmt.Sprint(objects))
		}
		if err := s.rest(ctx); err != nil {
			return nil, err
		}
		now, err := s.memory(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.saveProfile(ctx, o.profiles, "heap", fmt.Sprintf("%s-%d.heap.pb.gz", b.name, t.size)); err != nil {
			return nil, err
		}
		row = append(row, kibEach(now.heap-before.heap, o.tenants))
		before = now
	}
	_, again, err := s.restart(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.saveProfile(ctx, o.profiles, "heap", b.name+"-restarted.heap.pb.gz"); err != nil {
		return nil, err
	}
	return append(row, kibEach(again.heap-empty.heap, t.size)), nil
}

func kibEach(bytes int64, n int) string { return fmt.Sprintf("%.1f", float64(bytes)/float64(n)/1024) }

// objects counts what a logical cluster in use has, its own LogicalCluster included.
func (t *tenants) objects(ctx context.Context) (int, error) {
	client, err := metadata.NewForConfig(scope.PinnedConfig(t.server.config, scope.Scope{Cluster: clusterName(0)}))
	if err != nil {
		return 0, fmt.Errorf("making a client: %w", err)
	}
	inside, err := t.server.in(clusterName(0))
	if err != nil {
		return 0, err
	}
	lists, err := inside.Discovery().ServerPreferredResources()
	if err != nil {
		return 0, fmt.Errorf("asking which resources there are: %w", err)
	}
	count := 1
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return 0, fmt.Errorf("reading a group: %w", err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "watch") {
				continue
			}
			found, err := client.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, fmt.Errorf("listing %s: %w", r.Name, err)
			}
			for i := range found.Items {
				if !strings.HasPrefix(found.Items[i].Name, "system:") && gv.Group != "rbac.authorization.k8s.io" { // those that all share
					count++
				}
			}
		}
	}
	return count, nil
}
