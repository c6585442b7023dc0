package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	known := flag.String("known", "test/flaky.txt", "the list of tests that may pass the second time only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	passes, err := run(ctx, *known, flag.Args(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if err != nil || !passes {
		os.Exit(1)
	}
}

// run reports whether the tests pass. args are flags of go test, --, and packages.
func run(ctx context.Context, known string, args []string, out io.Writer) (bool, error) {
	split := slices.Index(args, "--")
	if split < 0 || split == len(args)-1 {
		return false, errors.New("no packages; write: retry [-known FILE] -- GO-TEST-FLAGS -- PACKAGES")
	}
	flags, packages := args[:split], args[split+1:]
	list, err := load(known)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", known, err)
	}
	first, err := goTest(ctx, out, flags, packages...)
	for _, line := range first.slowest() {
		fmt.Fprintln(out, line)
	}
	if err != nil || first.passed() {
		return err == nil, err
	}
	second, err := again(ctx, out, flags, first)
	if err != nil {
		return false, err
	}
	lines, passes := judge(first, second, list)
	// What follows a failure is long, and whoever reads the end only must learn why.
	for _, p := range slices.Sorted(maps.Keys(first.failed)) {
		for _, test := range first.failed[p] {
			for _, line := range first.said[p][test] {
				fmt.Fprintf(out, "== %s said at first: %s\n", test, line)
			}
		}
	}
	for _, line := range lines {
		fmt.Fprintln(out, "==", line)
	}
	return passes, nil
}

func load(path string) (map[string]entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readList(f, time.Now())
}

// again runs the tests that failed, alone; nil if there is nothing to run.
func again(ctx context.Context, out io.Writer, flags []string, first results) (*results, error) {
	if len(first.failed) == 0 {
		return nil, nil
	}
	all := &results{failed: map[string][]string{}}
	for _, p := range slices.Sorted(maps.Keys(first.failed)) {
		fmt.Fprintf(out, "== once more: %s\n", strings.Join(first.failed[p], ", "))
		second, err := goTest(ctx, out, append(slices.Clone(flags), "-count=1", "-run", pattern(first.failed[p])), p)
		if err != nil {
			return nil, err
		}
		maps.Copy(all.failed, second.failed)
		all.incomplete = append(all.incomplete, second.incomplete...)
	}
	return all, nil
}

// goTest runs go test. That tests failed is no error; that go failed without saying
// of which package is one.
func goTest(ctx context.Context, out io.Writer, flags []string, packages ...string) (results, error) {
	args := append([]string{"test", "-json"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return results{}, fmt.Errorf("starting go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return results{}, fmt.Errorf("starting go test: %w", err)
	}
	r, readErr := readResults(pipe, out)
	if readErr != nil { // an unread pipe would stop go for ever
		_ = cmd.Process.Kill()
	}
	err = cmd.Wait()
	switch {
	case readErr != nil:
		return r, fmt.Errorf("reading what go test says: %w", readErr)
	case ctx.Err() != nil:
		return r, fmt.Errorf("running go test: %w", ctx.Err())
	case err != nil && r.passed():
		return r, fmt.Errorf("running go test: %w", err)
	}
	return r, nil
}
