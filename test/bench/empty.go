package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
)

// emptyPart measures a server that was just started and that nobody uses.
func emptyPart(ctx context.Context, l *lab, o options) error {
	s, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	started, err := cpuTime(s.PID())
	if err != nil {
		return err
	}
	if err := s.measureIdle(ctx, o.idleFor); err != nil {
		return err
	}
	t := newTable("when", "heap MiB", "goroutines", "connections to etcd", "RSS MiB", "of it anonymous")
	resting, err := residence(s.PID()) // before collections, which a server has none of when it starts
	if err != nil {
		return err
	}
	m, err := s.memory(ctx)
	if err != nil {
		return err
	}
	connections, err := s.etcdConnections(ctx)
	if err != nil {
		return err
	}
	t.add(fmt.Sprintf("%s after the start", o.idleFor), "", fmt.Sprint(m.goroutines), fmt.Sprint(connections), fmt.Sprint(resting.all>>20), fmt.Sprint(resting.anonymous>>20))
	collected, err := residence(s.PID())
	if err != nil {
		return err
	}
	t.add("after collections", fmt.Sprint(m.heap>>20), fmt.Sprint(m.goroutines), fmt.Sprint(connections), fmt.Sprint(collected.all>>20), fmt.Sprint(collected.anonymous>>20))
	t.print()
	fmt.Printf("The start took %s ms of CPU; idle, the server takes %.1f %% of one core.\n\n", ms(started), 100*s.idle)
	if err := s.saveProfile(ctx, o.profiles, "heap", "empty.heap.pb.gz"); err != nil {
		return err
	}
	return s.saveProfile(ctx, o.profiles, "goroutine", "empty.goroutines.pb.gz")
}

// residentSet is what of a process is in memory, in bytes. What is not anonymous is the
// program itself and files: the kernel has it once for all, and takes it away when
// it needs room.
type residentSet struct{ all, anonymous int64 }

var anonymous = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// residence is zero where there is no /proc.
func residence(pid int) (residentSet, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if os.IsNotExist(err) {
		return residentSet{}, nil
	}
	if err != nil {
		return residentSet{}, fmt.Errorf("reading what of the process is in memory: %w", err)
	}
	return residentSet{all: number(resident, status) << 10, anonymous: number(anonymous, status) << 10}, nil
}
