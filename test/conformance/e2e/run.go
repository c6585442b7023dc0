package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// suite is upstream's binary and what it is run against.
type suite struct {
	binary, kubeconfig, kubectl string
	timeout                     time.Duration
	// dir gets a directory for each shard.
	dir string
	log io.Writer
}

// run runs the tests and returns what their reports say.
func (s suite) run(ctx context.Context, tests []string, n int) (map[string]result, error) {
	found := map[string]result{}
	parallel, serial := shards(tests, n)
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		errs    []error
	)
	one := func(name string, tests []string) {
		results, err := s.shard(ctx, name, tests)
		mu.Lock()
		defer mu.Unlock()
		for test, r := range results {
			found[test] = r
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("running shard %s: %w", name, err))
		}
	}
	for i, tests := range parallel {
		running.Go(func() { one(fmt.Sprint(i+1), tests) })
	}
	running.Wait()
	if len(serial) > 0 && ctx.Err() == nil {
		one("serial", serial)
	}
	return found, errors.Join(errs...)
}

// shard runs one process of the suite. That tests fail is no error.
func (s suite) shard(ctx context.Context, name string, tests []string) (map[string]result, error) {
	dir := filepath.Join(s.dir, "shard-"+name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	defer log.Close()
	began := time.Now()
	fmt.Fprintf(s.log, "shard %s: %d tests, log %s\n", name, len(tests), log.Name())

	cmd := exec.CommandContext(ctx, s.binary,
		"--kubeconfig", s.kubeconfig, "--kubectl-path", s.kubectl,
		"--provider", "skeleton", "--num-nodes", "3", "--allowed-not-ready-nodes", "-1", "--minStartupPods", "0",
		"--dump-logs-on-failure=false", "--report-dir", dir,
		"--ginkgo.timeout", s.timeout.String(), "--ginkgo.no-color", "--ginkgo.succinct", "--ginkgo.focus", focus(tests))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	err = cmd.Run()
	results, readErr := readReports(dir)
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(results) > 0 {
		err = nil
	}
	fmt.Fprintf(s.log, "shard %s: %d of %d tests ran in %s\n", name, len(results), len(tests), time.Since(began).Round(time.Second))
	return results, errors.Join(err, readErr)
}
