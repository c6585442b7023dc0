package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := judge(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func judge(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s := suite{log: stderr}
	flags.StringVar(&s.binary, "suite", "bin/e2e.test", "upstream's e2e.test")
	flags.StringVar(&s.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the way into the cluster that is judged")
	flags.StringVar(&s.kubectl, "kubectl", "kubectl", "the kubectl that tests run")
	flags.StringVar(&s.dir, "report", "", "directory for reports and logs; made if absent")
	flags.DurationVar(&s.timeout, "timeout", 45*time.Minute, "how long one shard may take")
	names := flags.String("tiers", "api,webhook-config,placed", "tiers to run")
	only := flags.String("only", "", "run only tests whose name matches this expression")
	list := flags.String("list", "", "run only tests that this file names, one a line")
	skip := flags.String("skip", "^$", "do not run tests whose name matches this expression")
	n := flags.Int("shards", 3, "how many tests run beside each other")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	not, err := regexp.Compile(*skip)
	if err != nil {
		return fmt.Errorf("-skip: %w", err)
	}
	listed, err := readList(*list)
	if err != nil {
		return fmt.Errorf("-list: %w", err)
	}
	tiers, err := loadTiers(strings.Split(*names, ","), func(test string) bool {
		return match.MatchString(test) && !not.MatchString(test) && (listed == nil || listed[test])
	})
	if err != nil {
		return err
	}
	if s.kubectl, err = exec.LookPath(s.kubectl); err != nil {
		return fmt.Errorf("-kubectl: %w", err)
	}
	for _, path := range []*string{&s.binary, &s.kubeconfig, &s.kubectl, &s.dir} {
		if *path == "" {
			return errors.New("-suite, -kubeconfig, -kubectl and -report are needed")
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("finding a file: %w", err)
		}
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of reports: %w", err)
	}
	var tests []string
	for _, t := range tiers {
		tests = append(tests, t.tests...)
	}
	found, runErr := s.run(ctx, tests, max(*n, 1))
	results := collect(tiers, found, knownFailures(knownFile))
	if err := writeReports(s.dir, tiers, results); err != nil {
		return err
	}
	surprises := say(stdout, tiers, results)
	if runErr != nil {
		return runErr
	}
	if surprises > 0 {
		return fmt.Errorf("%d tests did not do what known.txt says; reports and logs are in %s", surprises, s.dir)
	}
	return nil
}
