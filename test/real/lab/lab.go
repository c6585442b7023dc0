//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab/policies"
)

// Lab is a server and physical clusters with real nodes.
type Lab struct {
	dir    string
	Server *process.Process
	// Root is the admin's kubectl in the logical cluster "root".
	Root     process.Kubectl
	Physical []*PhysicalCluster
	// Resolver answers what the nodes, and so atoll-dns, ask of names outside.
	Resolver *Resolver
}

// Config is a physical cluster that is asked for.
type Config struct {
	Name string
	// Pull has a syncer beside it, which connects to the server; else the server connects.
	Pull bool
}

// PhysicalCluster is one localcluster and its node; the kubectl is its admin's.
type PhysicalCluster struct {
	process.Kubectl
	Config
	// ControlPlane is its API server and controllers; killing it leaves the pods alone.
	ControlPlane *process.Process
	// Syncer is nil if the server connects.
	Syncer *process.Process
	node   node
}

// Start makes a lab in dir, with physical clusters that are Ready. It runs until
// the tests end; ctx is for the programs that the tests run themselves.
func Start(ctx context.Context, dir string, configs ...Config) (*Lab, error) {
	l := &Lab{dir: dir, Resolver: &Resolver{}}
	images, err := buildImages(dir)
	if err != nil {
		return l, err
	}
	if err := run("ip", "addr", "add", ServerHost+"/32", "dev", "lo"); err != nil {
		return l, err
	}
	failed := make(chan error)
	for i, config := range configs {
		name := config.Name
		p := &PhysicalCluster{Config: config, Kubectl: process.Kubectl{Kubeconfig: l.Path(name, "admin.kubeconfig")}}
		p.node = node{
			network: network{name: name, index: i + 1}, dir: l.Path(name + "-node"), pki: l.Path(name, "pki"),
			group: os.Getenv(groupVariable) + name,
		}
		l.Physical = append(l.Physical, p)
		go func() { failed <- p.start(ctx, images, l.Resolver) }()
	}
	l.Server, err = process.Start(ctx, process.Spec{
		Path:  process.Binary("atoll"),
		Args:  []string{"start", "--data-dir", l.Path("atoll"), "--listen", Server, "--pods-server", "https://" + ServerHost},
		Log:   l.Path("atoll.log"),
		Ready: "atoll serves at ",
	})
	for range configs {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return l, err
	}
	l.Root = process.Kubectl{Kubeconfig: l.Path("atoll", "admin.kubeconfig"), Context: "root"}
	for _, p := range l.Physical {
		if err := l.register(ctx, p); err != nil {
			return l, fmt.Errorf("registering %s: %w", p.Name, err)
		}
	}
	return l, nil
}

func (p *PhysicalCluster) start(ctx context.Context, images []string, resolver *Resolver) error {
	if err := p.node.network.make(); err != nil {
		return err
	}
	if err := resolver.serve(ctx, p.node.server()); err != nil {
		return err
	}
	var err error
	if p.ControlPlane, err = process.Start(ctx, process.Spec{
		Path: process.Binary("localcluster"),
		Args: []string{
			"up", "--name", p.Name, "--data-dir", filepath.Dir(p.Kubeconfig), "--nodes", "0", "--port", "6443",
			"--bind", p.node.server(), "--real-node", p.node.node(),
		},
		Log:   filepath.Dir(p.Kubeconfig) + ".log",
		Ready: " is ready ",
	}); err != nil {
		return err
	}
	if err := p.node.start(ctx, images, p.Kubectl); err != nil {
		return fmt.Errorf("starting the node of %s: %w", p.Name, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := policies.Enforce(ctx, client, p.node.filter); err != nil {
		return fmt.Errorf("enforcing NetworkPolicies on %s: %w", p.Name, err)
	}
	return p.node.balance(ctx, client)
}

// LogicalCluster makes one and returns its admin's kubectl.
func (l *Lab) LogicalCluster(ctx context.Context, name string) (process.Kubectl, error) {
	k := process.Kubectl{Kubeconfig: l.Path(name + ".kubeconfig")}
	if _, err := l.Root.Apply(ctx, "{apiVersion: tenancy.atoll.dev/v1alpha1, kind: LogicalCluster, metadata: {name: "+name+"}}"); err != nil {
		return k, err
	}
	return k, l.kubeconfig(k.Kubeconfig, name)
}

// kubeconfig issues one, of an admin or with --syncer of a syncer.
func (l *Lab) kubeconfig(path string, args ...string) error {
	args = append([]string{"kubeconfig", "--data-dir", l.Path("atoll"), "--output", path}, args...)
	if out, err := exec.Command(process.Binary("atoll"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("atoll %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// PhysicalCluster finds one by its name.
func (l *Lab) PhysicalCluster(name string) *PhysicalCluster {
	for _, p := range l.Physical {
		if p.Name == name {
			return p
		}
	}
	panic("there is no physical cluster " + name)
}

// Path is a file of the lab.
func (l *Lab) Path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// Logs are the ends of the logs of all programs, for a test that failed.
func (l *Lab) Logs() string {
	var out strings.Builder
	add := func(name string, p *process.Process) {
		if p != nil {
			fmt.Fprintf(&out, "--- end of the log of %s\n%s\n", name, p.LogTail())
		}
	}
	add("the server", l.Server)
	for _, p := range l.Physical {
		add(p.Name, p.ControlPlane)
		add("the syncer of "+p.Name, p.Syncer)
		add("containerd of "+p.Name, p.node.runtime)
		add("the kubelet of "+p.Name, p.node.kubelet)
		add("kube-proxy of "+p.Name, p.node.proxy)
	}
	return out.String()
}

// Address is where pods of each physical cluster reach a listener of the tests.
func (p *PhysicalCluster) Address() string { return p.node.server() }

// NodeAddress is that of the node, where its kubelet listens.
func (p *PhysicalCluster) NodeAddress() string { return p.node.node() }

// NodeName is the name of the node.
func (p *PhysicalCluster) NodeName() string { return p.node.nodeName() }

// PluginRegistry is where the kubelet looks for drivers of volumes.
func (p *PhysicalCluster) PluginRegistry() string { return p.node.file("kubelet", "plugins_registry") }
