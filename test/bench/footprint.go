package main

import (
	"context"
	"fmt"
)

// footprintPart compares what this build holds in memory with what a previous one does,
// in one run: empty, with logical clusters that are in use, and after a restart, when
// watch caches remember no events.
func footprintPart(ctx context.Context, l *lab, o options) error {
	builds := []build{{name: "now", bin: l.bin}}
	if o.previous != "" {
		builds = []build{{name: "previous", bin: o.previous}, builds[0]}
	}
	t := newTable("build", "empty: goroutines", "heap MiB", "RSS MiB", "of it anonymous",
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
