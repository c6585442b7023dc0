package operators

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

var theLab *lab

// lab is two physical clusters and a server.
type lab struct {
	dir       string
	listen    string
	processes []*process.Process
	root      process.Kubectl
}

func TestMain(m *testing.M) {
	if err := process.Missing("atoll", "localcluster", "kubectl"); err != nil {
		fmt.Println("skipping the tests with operators:", err)
		return
	}
	built, err := filepath.Glob(process.Binary("operators/*"))
	if err != nil || len(built) == 0 {
		fmt.Println("skipping the tests with operators: none is built; run make operators")
		return
	}
	os.Exit(runWithLab(m))
}

func runWithLab(m *testing.M) int {
	dir, err := os.MkdirTemp("", "atoll-operators-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	theLab = &lab{dir: dir}
	defer theLab.remove()
	if err := theLab.start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "starting the lab:", err)
		return 1
	}
	return m.Run()
}

func (l *lab) path(elem ...string) string { return filepath.Join(append([]string{l.dir}, elem...)...) }

func (l *lab) start(ctx context.Context) error {
	var err error
	if l.listen, err = ports.Address("127.0.0.1"); err != nil {
		return err
	}
	if err := l.run(ctx, "atoll", " serves at ", "start", "--data-dir", l.path("atoll"), "--listen", l.listen,
		"--tenant-egress-allow", "127.0.0.0/8"); err != nil {
		return err
	}
	l.root = process.Kubectl{Kubeconfig: l.path("atoll", "admin.kubeconfig"), Context: "root"}
	for _, name := range []string{"east", "west"} {
		if err := l.run(ctx, "localcluster", " is ready ", "up", "--name", name, "--data-dir", l.path(name)); err != nil {
			return err
		}
		if err := l.register(ctx, name); err != nil {
			return err
		}
	}
	_, err = l.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=60s", "physicalcluster", "--all")
	return err
}

func (l *lab) run(ctx context.Context, binary, ready string, args ...string) error {
	p, err := process.Start(ctx, process.Spec{
		Path: process.Binary(binary), Args: args, Ready: ready, Log: l.path(fmt.Sprintf("%s-%d.log", binary, len(l.processes))),
	})
	l.processes = append(l.processes, p)
	return err
}

func (l *lab) register(ctx context.Context, name string) error {
	secret, err := l.root.Run(ctx, "create", "secret", "generic", name+"-kubeconfig", "--namespace=atoll-system",
		"--from-file=kubeconfig="+l.path(name, "admin.kubeconfig"), "--dry-run=client", "-o", "yaml")
	if err != nil {
		return err
	}
	sample, err := os.ReadFile(filepath.Join(process.Root(), "config", "samples", "physicalcluster.yaml"))
	if err != nil {
		return err
	}
	_, err = l.root.Apply(ctx, secret+"\n---\n"+strings.ReplaceAll(string(sample), "NAME", name))
	return err
}

func (l *lab) remove() {
	for _, p := range l.processes {
		if err := p.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	_ = os.RemoveAll(l.dir)
}

// newCluster makes a logical cluster for one test and returns its admin's kubectl.
func (l *lab) newCluster(t *testing.T, name string) process.Kubectl {
	t.Helper()
	do(t)(l.root.Apply(t.Context(), "apiVersion: tenancy.atoll.dev/v1alpha1\nkind: LogicalCluster\nmetadata: {name: "+name+"}\n"))
	path := l.path(name + ".kubeconfig")
	out, err := exec.Command(process.Binary("atoll"), "kubeconfig", name, "--data-dir", l.path("atoll"), "--output", path).CombinedOutput()
	if err != nil {
		t.Fatalf("atoll kubeconfig: %v\n%s", err, out)
	}
	return process.Kubectl{Kubeconfig: path}
}

// operator starts a built operator until the test ends; the test is skipped if
// it is not built. A test that fails shows the end of its log.
func (l *lab) operator(t *testing.T, name string, args ...string) {
	t.Helper()
	l.command(t, name, append([]string{built(t, name)}, args...))
}

func (l *lab) command(t *testing.T, name string, args []string) {
	t.Helper()
	p, err := process.Start(t.Context(), process.Spec{Path: args[0], Args: args[1:], Log: l.path(name + ".log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, p.LogTail())
		}
		p.Kill()
	})
}

// built is the path of an operator; the test is skipped if there is none.
func built(t *testing.T, name string) string {
	t.Helper()
	binary := filepath.Join("operators", name)
	if process.Missing(binary) != nil {
		t.Skipf("%s is not built: run make operators", name)
	}
	return process.Binary(binary)
}

// sources is the directory of a module of modules/go.mod, or of a module of its
// own beside it.
func sources(t *testing.T, dir, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = filepath.Join(process.Root(), "test", "e2e", "operators", dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("finding the sources of %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// define applies CRDs and waits until they are served.
func define(t *testing.T, k process.Kubectl, path string) {
	t.Helper()
	do(t)(k.Run(t.Context(), "apply", "--server-side", "-f", path))
	do(t)(k.Run(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"))
}

// do fails the test on an error and passes what kubectl printed on.
func do(t *testing.T) func(string, error) string {
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// becomes waits until what kubectl prints for args is want.
func becomes(t *testing.T, k process.Kubectl, want string, args ...string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		out, err := k.Run(t.Context(), args...)
		out = strings.TrimSpace(out)
		if err == nil && out == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("kubectl %s: %q (%v), want %q", strings.Join(args, " "), out, err, want)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// jsonpath are the arguments that read a field.
func jsonpath(object, path string) []string {
	return []string{"get", object, "--ignore-not-found", "-o", "jsonpath={" + path + "}"}
}

// vanishes waits until there are no objects.
func vanishes(t *testing.T, k process.Kubectl, args ...string) {
	t.Helper()
	becomes(t, k, "", append([]string{"get", "--ignore-not-found", "-o", "name"}, args...)...)
}
