package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// options are the flags.
type options struct {
	parts          []string
	bin            string
	rounds, made   int
	sizes          []int
	single, burst  int
	keep, requests bool
	profiles       string
	idleFor        time.Duration
	latencySamples int
	previous       string
	tenants        int
	definitions    string
	noise          string
	noises         []string
	moves          int
	drained        []int
	fleets         []int
	services       []int
	placed, units  int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	o, err := parse(os.Args[1:])
	switch {
	case err != nil:
	case o.noise != "":
		err = runNoise(o.noise)
	default:
		err = run(ctx, o)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	parts := fs.String("parts", "empty,operations,clusters,journeys,namespaces,definitions,noise,tenants", "parts to run")
	sizes := fs.String("sizes", "10,1000,10000", "numbers of logical clusters of the part clusters, rising; the last is that of the part tenants")
	fs.StringVar(&o.bin, "bin", filepath.Join(process.Root(), "bin"), "directory of the binaries atoll and localcluster")
	fs.IntVar(&o.rounds, "rounds", 10, "rounds of the part operations")
	fs.IntVar(&o.made, "objects", 50, "objects made in a round")
	fs.IntVar(&o.latencySamples, "samples", 200, "samples of a latency in the part clusters")
	fs.IntVar(&o.single, "single", 100, "objects that go one after the other in the part journeys")
	fs.IntVar(&o.burst, "burst", 1000, "objects that go at once in the part journeys")
	fs.DurationVar(&o.idleFor, "idle", 10*time.Second, "how long to watch an idle server for the CPU that it takes by itself")
	fs.StringVar(&o.profiles, "profiles", "", "directory for pprof profiles of the Atoll server; profiling costs some of what is measured")
	fs.StringVar(&o.previous, "previous", "", "directory of the binaries of a previous build, for the parts footprint, builds, documents, decisions and services")
	fs.IntVar(&o.moves, "moves", 20, "moves of one unit in the part moves")
	drained := fs.String("drained", "100,1000", "numbers of units that are drained in the part moves, rising")
	fleets := fs.String("fleets", "10,100,1000", "numbers of physical clusters of the parts placing and decisions, rising")
	services := fs.String("services", "1000,10000", "numbers of Services of a logical cluster of the part services, rising")
	fs.IntVar(&o.placed, "placed", 100, "objects of each kind that are placed in the part placing, and decisions of a block in the part decisions")
	fs.IntVar(&o.units, "units", 0, "units that are placed on the fewest physical clusters before anything is measured in the parts placing and decisions")
	fs.IntVar(&o.tenants, "tenants", 800, "logical clusters of the part footprint, made twice")
	fs.StringVar(&o.noise, "noise", "", "file that says which noise to make; the part neighbour starts itself so")
	only := fs.String("noises", "", "noises of the part neighbour, all if empty: "+strings.Join(noiseNames(), ","))
	fs.StringVar(&o.definitions, "definitions", "", "directory with a CustomResourceDefinition in each file, for the part documents")
	fs.BoolVar(&o.requests, "requests", true, "print what requests an object takes in the part journeys")
	fs.BoolVar(&o.keep, "keep", false, "keep data and logs, and say where")
	if err := fs.Parse(args); err != nil {
		return o, flag.ErrHelp
	}
	o.parts = strings.Split(*parts, ",")
	if *only != "" {
		o.noises = strings.Split(*only, ",")
	}
	if o.sizes, err = rising("-sizes", *sizes); err != nil {
		return o, err
	}
	if o.drained, err = rising("-drained", *drained); err != nil {
		return o, err
	}
	if o.services, err = rising("-services", *services); err != nil {
		return o, err
	}
	o.fleets, err = rising("-fleets", *fleets)
	return o, err
}

// rising are the numbers of a flag.
func rising(flag, text string) (out []int, _ error) {
	for _, size := range strings.Split(text, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is not a number of at least 1", flag, size)
		}
		out = append(out, n)
	}
	if !slices.IsSorted(out) {
		return nil, errors.New(flag + " must rise")
	}
	return out, nil
}

// parts by name.
var parts = map[string]func(context.Context, *lab, options) error{
	"empty":       emptyPart,
	"operations":  operationsPart,
	"clusters":    clustersPart,
	"journeys":    journeysPart,
	"namespaces":  namespacesPart,
	"definitions": definitionsPart,
	"tenants":     tenantsPart,
	"noise":       noisePart,
	"footprint":   footprintPart,
	"builds":      buildsPart,
	"moves":       movesPart,
	"documents":   documentsPart,
	"neighbour":   neighbourPart,
	"placing":     placingPart,
	"decisions":   decisionsPart,
	"services":    servicesPart,
}

func run(ctx context.Context, o options) error {
	for _, name := range o.parts {
		if parts[name] == nil {
			return fmt.Errorf("no part is called %q", name)
		}
	}
	began := time.Now()
	for _, name := range o.parts {
		fmt.Printf("## %s\n\n%s\n\n", name, conditions())
		if err := runPart(ctx, name, o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Printf("%s\nAll of it took %s.\n", conditions(), time.Since(began).Round(time.Second))
	return nil
}

// runPart gives a part processes and data of its own.
func runPart(ctx context.Context, name string, o options) error {
	dir, err := os.MkdirTemp("", "atoll-bench-")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	l := &lab{dir: dir, bin: o.bin}
	defer func() {
		l.stop()
		if o.keep {
			fmt.Println("data and logs are in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	return parts[name](ctx, l, o)
}

// operationsPart compares with a stock server while nothing can be placed.
func operationsPart(ctx context.Context, l *lab, o options) error {
	stock, err := l.startStock(ctx, "stock", 1)
	if err != nil {
		return err
	}
	ours, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	if err := measureIdle(ctx, o.idleFor, stock, ours); err != nil {
		return err
	}
	if err := ours.makeLogicalCluster(ctx, benchCluster.String()); err != nil {
		return err
	}
	reference, err := newSide(ctx, "stock", stock, "", "bench")
	if err != nil {
		return err
	}
	inside, err := newSide(ctx, "atoll", ours, benchCluster, "bench")
	if err != nil {
		return err
	}
	root, err := newSide(ctx, "atoll, root, where nothing is placed", ours, scope.Root, "bench")
	if err != nil {
		return err
	}
	pending := *inside
	pending.name = "atoll, nothing to place on"
	profiled := ours.profileCPU(ctx, o.profiles, "operations.cpu.pb.gz", 30*time.Second)
	t := newOperationsTable()
	// Pending objects keep controllers busy: they come last, and alone.
	for _, c := range []struct {
		kind kind
		side *side
	}{{configMapKind, inside}, {podTemplateKind, inside}, {deploymentKind, root}, {deploymentKind, &pending}} {
		if err := compareOperations(ctx, t, c.kind, []*side{reference, c.side}, o.rounds, o.made); err != nil {
			return err
		}
	}
	t.print()
	return profiled()
}

func measureIdle(ctx context.Context, d time.Duration, servers ...*server) error {
	for _, s := range servers {
		if err := s.measureIdle(ctx, d); err != nil {
			return err
		}
		fmt.Printf("Idle, %s takes %.1f %% of one core; this is subtracted below.\n", s.name, 100*s.idle)
	}
	fmt.Println()
	return nil
}

func (s *server) makeLogicalCluster(ctx context.Context, name string) error {
	_, own, err := s.scoped()
	if err != nil {
		return err
	}
	cluster := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := own.TenancyV1alpha1().LogicalClusters().Create(inCluster(ctx, scope.Root), cluster, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating logical cluster %s: %w", name, err)
	}
	return nil
}

// permitRecords lets a logical cluster have any number of objects, and of records of them.
func (s *server) permitRecords(ctx context.Context, name string) error {
	_, own, err := s.scoped()
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"limits":{"objects":%d}}}`, tenancyv1alpha1.Unlimited)
	if _, err := own.TenancyV1alpha1().LogicalClusters().Patch(inCluster(ctx, scope.Root), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("lifting the limit of logical cluster %s: %w", name, err)
	}
	return nil
}

func inCluster(ctx context.Context, c logicalcluster.Name) context.Context {
	return scope.WithCluster(ctx, c)
}

// conditions is what else decides the figures.
func conditions() string {
	load := "unknown"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	commit := "unknown"
	if out, err := exec.Command("git", "-C", process.Root(), "rev-parse", "--short", "HEAD").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%s, commit %s, %s/%s, %d cores, load average %s.",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), commit, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load)
}
