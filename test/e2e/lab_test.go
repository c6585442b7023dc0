package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// theLab is what all tests share.
var theLab *lab

// lab is a server and its physical clusters.
type lab struct {
	dir    string
	listen string
	// east and west are nil in a lab without them.
	east   *physicalCluster
	west   *physicalCluster
	server *process.Process
	// root is the admin's kubectl in the logical cluster "root".
	root process.Kubectl

	clusters atomic.Int32

	mu sync.Mutex
	// pods are the numbers of the ranges of pods of physical clusters, by name.
	pods map[string]int
}

// physicalCluster is one localcluster.
type physicalCluster struct {
	*process.Process
	process.Kubectl
	name string
	// disks is what it calls the storage class "disks"; empty: the same.
	disks string
	// driver makes the volumes of that class; empty: nobody does, and a simulation of one for what none fits.
	driver string
}

func (p *physicalCluster) diskClass() string { return cmp.Or(p.disks, "disks") }

func TestMain(m *testing.M) {
	if err := process.Missing("atoll", "atoll-syncer", "localcluster", "kubectl"); err != nil {
		fmt.Println("skipping the end-to-end tests:", err)
		return
	}
	flag.Parse() // what is given on the command line comes before
	if err := chooseTests(); err != nil {
		fmt.Fprintln(os.Stderr, "choosing tests:", err)
		os.Exit(1)
	}
	os.Exit(runWithLab(m))
}

func runWithLab(m *testing.M) int {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "atoll-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	theLab = &lab{dir: dir}
	defer theLab.remove()
	if err := theLab.start(ctx, "east", "west"); err != nil {
		fmt.Fprintln(os.Stderr, "starting the lab:", err)
		return 1
	}
	return m.Run()
}

// newLab starts a lab for one test: what stops, kills or freezes processes, or changes physical
// clusters for everybody on them, has them to itself and runs beside other tests.
func newLab(t *testing.T, physical ...string) *lab {
	t.Helper()
	ctx := context.Background()
	dir, err := os.MkdirTemp(theLab.dir, "lab-")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: dir}
	t.Cleanup(func() {
		for _, p := range l.processes() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		}
		if os.Getenv("ATOLL_E2E_KEEP") == "" {
			_ = os.RemoveAll(dir)
		}
	})
	if err := l.start(ctx, physical...); err != nil {
		t.Fatal(err)
	}
	return l
}

// start starts the server, and those of east and west that are named.
func (l *lab) start(ctx context.Context, physical ...string) error {
	var err error
	if l.listen, err = ports.Address("127.0.0.1"); err != nil {
		return err
	}
	admission, err := ports.Address("127.0.0.1")
	if err != nil {
		return err
	}
	failed := make(chan error, len(physical))
	for _, name := range physical {
		p := map[string]**physicalCluster{"east": &l.east, "west": &l.west}[name]
		go func() { var err error; *p, err = l.startPhysical(ctx, name); failed <- err }()
	}
	l.server, err = process.Start(ctx, process.Spec{
		Path:  process.Binary("atoll"),
		Args:  []string{"start", "--data-dir", l.path("atoll"), "--listen", l.listen, "--admission-address", admission, "--admission-url", "https://" + admission},
		Log:   l.path("atoll.log"),
		Ready: "atoll serves at ",
	})
	for range physical {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return err
	}
	l.root = process.Kubectl{Kubeconfig: l.path("atoll", "admin.kubeconfig"), Context: "root"}
	for _, p := range l.physicalClusters() {
		if err := l.register(ctx, p.name, p.Kubeconfig); err != nil {
			return err
		}
	}
	for _, p := range l.physicalClusters() {
		if _, err := l.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/"+p.name); err != nil {
			return fmt.Errorf("%w\n%s", err, l.server.LogTail())
		}
	}
	return nil
}

// startPhysical starts a physical cluster, whose name nobody else of the lab has.
func (l *lab) startPhysical(ctx context.Context, name string, flags ...string) (*physicalCluster, error) {
	if _, err := os.Stat(l.path(name)); err == nil {
		return nil, fmt.Errorf("another test of this lab has a physical cluster %q, and may have left things there: give this one another name", name)
	}
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, process.Spec{
		Path:  process.Binary("localcluster"),
		Args:  append([]string{"up", "--name", name, "--data-dir", l.path(name), "--port", port, "--nodes", "5", "--pods", l.podsOf(name)}, flags...), // some applications want four
		Log:   l.path(name + ".log"),
		Ready: " is ready ",
	})
	return &physicalCluster{Process: p, name: name, Kubectl: process.Kubectl{Kubeconfig: l.path(name, "admin.kubeconfig")}}, err
}

// podsOf are the addresses of the pods of a physical cluster, which no other one has.
func (l *lab) podsOf(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods == nil {
		l.pods = map[string]int{"east": 0, "west": 1}
	}
	if _, known := l.pods[name]; !known {
		l.pods[name] = len(l.pods)
	}
	return fmt.Sprintf("10.%d.0.0/16", (244+l.pods[name])%256)
}

// apart is the taint of a physical cluster that gets only what is pinned there.
const apart = "{key: only, effect: PreferNoSchedule}"

// register makes a PhysicalCluster that the server reaches with a kubeconfig. What a test has to
// itself is registered with a taint: other tests would place something there before it is added.
func (l *lab) register(ctx context.Context, name, kubeconfig string, taints ...string) error {
	secret, err := l.root.Run(ctx, "create", "secret", "generic", name+"-kubeconfig", "--namespace=atoll-system",
		"--from-file=kubeconfig="+kubeconfig, "--dry-run=client", "-o", "yaml")
	if err != nil {
		return err
	}
	if _, err := l.root.Apply(ctx, secret); err != nil {
		return err
	}
	sample, err := os.ReadFile(filepath.Join(process.Root(), "config", "samples", "physicalcluster.yaml"))
	if err != nil {
		return err
	}
	spec := ""
	if len(taints) > 0 {
		spec = "\n  taints: [" + strings.Join(taints, ", ") + "]\n"
	}
	_, err = l.root.Apply(ctx, strings.ReplaceAll(string(sample), "NAME", name)+spec)
	return err
}

// trust lets logical clusters do on the physical clusters what their own users may,
// until the test ends: it is not parallel.
func (l *lab) trust(t *testing.T) {
	ctx := context.Background()
	permits := filepath.Join(process.Root(), "config", "samples", "tenancy-trusted.yaml")
	for _, p := range []*physicalCluster{l.east, l.west} {
		must(t)(l.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=merge", "--patch-file", permits))
		t.Cleanup(func() {
			must(t)(l.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=json", "-p", `[{"op":"remove","path":"/spec/tenancy"}]`))
		})
	}
}

// remove stops everything; a lab that does not stop well is told, not failed.
func (l *lab) remove() {
	for _, p := range l.processes() {
		if err := p.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if os.Getenv("ATOLL_E2E_KEEP") != "" {
		fmt.Println("the lab is kept in", l.dir)
		return
	}
	_ = os.RemoveAll(l.dir)
}

// physicalClusters are those of east and west that the lab has.
func (l *lab) physicalClusters() []*physicalCluster {
	return slices.DeleteFunc([]*physicalCluster{l.east, l.west}, func(p *physicalCluster) bool { return p == nil })
}

// processes are those that were started, the server first.
func (l *lab) processes() []*process.Process {
	var out []*process.Process
	if l.server != nil {
		out = append(out, l.server)
	}
	for _, p := range l.physicalClusters() {
		out = append(out, p.Process)
	}
	return out
}

func (l *lab) path(elem ...string) string { return filepath.Join(append([]string{l.dir}, elem...)...) }

// newCluster makes a logical cluster for one test and returns its admin's kubectl.
func (l *lab) newCluster(t *testing.T) process.Kubectl {
	t.Helper()
	name := fmt.Sprintf("e2e-%d", l.clusters.Add(1))
	ctx := context.Background()
	must(t)(l.root.Apply(ctx, "apiVersion: tenancy.atoll.dev/v1alpha1\nkind: LogicalCluster\nmetadata: {name: "+name+"}\n"))
	t.Cleanup(func() {
		if t.Failed() {
			l.report(t, name)
			return
		}
		must(t)(l.root.Run(ctx, "delete", "logicalcluster", name, "--timeout=3m"))
	})
	return process.Kubectl{Kubeconfig: l.kubeconfig(t, name)}
}

// report logs what both sides have of a logical cluster when a test failed.
func (l *lab) report(t *testing.T, name string) {
	ctx := context.Background()
	const workloads = "deployments,statefulsets,daemonsets,jobs,pods,persistentvolumeclaims,events"
	above, err := process.Kubectl{Kubeconfig: l.path(name + ".kubeconfig")}.Run(ctx, "get", workloads+",copies", "-A", "-o", "wide")
	t.Logf("above (error %v):\n%s", err, above)
	for _, p := range l.physicalClusters() {
		below, err := p.Run(ctx, "get", workloads, "-A", "-o", "wide")
		t.Logf("on %s (error %v):", p.name, err)
		for line := range strings.Lines(below) {
			if strings.HasPrefix(line, name+"-") || strings.HasPrefix(line, "NAMESPACE") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	t.Logf("end of the server's log:\n%s", l.server.LogTail())
}

// kubeconfig issues a kubeconfig: for a logical cluster, or with --syncer for a
// physical cluster.
func (l *lab) kubeconfig(t *testing.T, args ...string) string {
	t.Helper()
	path := l.path(strings.Join(args, "") + ".kubeconfig")
	args = append([]string{"kubeconfig", "--data-dir", l.path("atoll"), "--output", path}, args...)
	out, err := exec.Command(process.Binary("atoll"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("atoll %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return path
}
