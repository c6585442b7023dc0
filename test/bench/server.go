package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// server is one server process.
type server struct {
	*process.Process
	name       string
	kubeconfig string
	// config has no logical cluster in its host.
	config *rest.Config
	// idle is the share of one core that the process takes when nobody asks
	// for anything.
	idle float64
}

// lab starts the processes in a directory.
type lab struct {
	dir, bin string
	started  []*server
}

// startAtoll runs an Atoll server of its own data.
func (l *lab) startAtoll(ctx context.Context, name string, flags ...string) (*server, error) {
	dir := filepath.Join(l.dir, name)
	address, err := ports.Address("127.0.0.1") // the same after a restart: statuses have the URL
	if err != nil {
		return nil, err
	}
	return l.start(ctx, name, dir, process.Spec{
		Path:  filepath.Join(l.bin, "atoll"),
		Args:  append([]string{"start", "--data-dir", dir, "--listen", address, "--unsafe-no-fsync"}, flags...),
		Ready: "atoll serves at ",
	})
}

// startStock runs a stock cluster.
func (l *lab) startStock(ctx context.Context, name string, nodes int) (*server, error) {
	dir := filepath.Join(l.dir, name)
	return l.start(ctx, name, dir, process.Spec{
		Path:  filepath.Join(l.bin, "localcluster"),
		Args:  []string{"up", "--name", name, "--data-dir", dir, "--nodes", strconv.Itoa(nodes)},
		Ready: " is ready ",
	})
}

func (l *lab) start(ctx context.Context, name, dir string, spec process.Spec) (*server, error) {
	spec.Log = filepath.Join(l.dir, name+".log")
	p, err := process.Start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s := &server{Process: p, name: name, kubeconfig: filepath.Join(dir, "admin.kubeconfig")}
	l.started = append(l.started, s)
	c, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", s.name, err)
	}
	c.Host, _, _ = strings.Cut(c.Host, "/clusters/")
	c.QPS = -1 // what is measured is the server
	c.WarningHandler = rest.NoWarnings{}
	s.config = c
	return s, nil
}

// stop ends all that was started, the last first.
func (l *lab) stop() {
	for i := len(l.started) - 1; i >= 0; i-- {
		if err := l.started[i].Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	l.started = nil
}

// in returns a client for one logical cluster, or of a stock cluster if c is empty.
func (s *server) in(c logicalcluster.Name) (kubernetes.Interface, error) {
	config := s.config
	if c != "" {
		config = scope.PinnedConfig(config, scope.Scope{Cluster: c})
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", s.name, err)
	}
	return client, nil
}

// scoped returns clients whose calls take the logical cluster from the context.
func (s *server) scoped() (kubernetes.Interface, versioned.Interface, error) {
	config := scope.ScopedConfig(s.config)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client of %s: %w", s.name, err)
	}
	own, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client of %s: %w", s.name, err)
	}
	return kube, own, nil
}

// measureIdle finds out how much CPU s takes by itself.
func (s *server) measureIdle(ctx context.Context, d time.Duration) error {
	before, err := cpuTime(s.PID())
	if err != nil {
		return err
	}
	if err := pause(ctx, d); err != nil {
		return err
	}
	after, err := cpuTime(s.PID())
	s.idle = float64(after-before) / float64(d)
	return err
}

// How long a server must have little to do until it counts as settled.
const (
	// briefly is for one object of many.
	briefly = 20 * time.Millisecond
	// gathered is longer than controllers wait for more of the same.
	gathered = 240 * time.Millisecond
)

// settle waits until s has little left to do: what controllers do after a write
// belongs to the write. It gives up after a while.
func (s *server) settle(ctx context.Context, quiet time.Duration) error {
	const step, tries = 20 * time.Millisecond, 500
	quietFor := time.Duration(0)
	for range tries {
		before, err := cpuTime(s.PID())
		if err != nil {
			return err
		}
		if err := pause(ctx, step); err != nil {
			return err
		}
		after, err := cpuTime(s.PID())
		if err != nil {
			return err
		}
		if quietFor += step; after-before >= time.Duration(2*s.idle*float64(step))+time.Millisecond {
			quietFor = 0
		}
		if quietFor >= quiet {
			return nil
		}
	}
	return nil
}

// memory is what a server holds after its garbage was collected.
type memory struct {
	heap, rss  int64 // bytes
	goroutines int64
}

var (
	heapAlloc  = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	goroutines = regexp.MustCompile(`^goroutine profile: total (\d+)`)
	resident   = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
)

func (s *server) memory(ctx context.Context) (m memory, err error) {
	root, err := s.in(scope.Root)
	if err != nil {
		return m, err
	}
	read := func(path string, re *regexp.Regexp, params ...string) int64 {
		if err != nil {
			return 0
		}
		req := root.Discovery().RESTClient().Get().AbsPath(path).Param("debug", "1")
		for _, p := range params {
			req = req.Param(p, "1")
		}
		var body []byte
		if body, err = req.DoRaw(ctx); err != nil {
			err = fmt.Errorf("reading %s: %w", path, err)
			return 0
		}
		return number(re, body)
	}
	for range 2 { // finalizers and pools hold some of it for a collection or two
		read("/debug/pprof/heap", heapAlloc, "gc")
	}
	m.heap = read("/debug/pprof/heap", heapAlloc, "gc")
	m.goroutines = read("/debug/pprof/goroutine", goroutines)
	if err != nil {
		return m, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		return m, nil // not on Linux: unknown
	}
	m.rss = number(resident, status) << 10
	return m, nil
}

// number is the first match, or 0.
func number(re *regexp.Regexp, text []byte) int64 {
	found := re.FindSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return n
}

// saveProfile writes a profile of s, such as heap, to dir, if there is one.
func (s *server) saveProfile(ctx context.Context, dir, profile, name string, params ...string) error {
	if dir == "" {
		return nil
	}
	root, err := s.in(scope.Root)
	if err != nil {
		return err
	}
	req := root.Discovery().RESTClient().Get().AbsPath("/debug/pprof/" + profile)
	for i := 0; i+1 < len(params); i += 2 {
		req = req.Param(params[i], params[i+1])
	}
	body, err := req.DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("reading profile %s of %s: %w", profile, s.name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
		return fmt.Errorf("writing a profile: %w", err)
	}
	return nil
}

// profileCPU profiles s in the background until stop is called.
func (s *server) profileCPU(ctx context.Context, dir, name string, d time.Duration) (stop func() error) {
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	go func() {
		done <- s.saveProfile(ctx, dir, "profile", name, "seconds", strconv.Itoa(int(d.Seconds())))
	}()
	return func() error {
		defer cancel()
		return <-done
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
