// Command run starts a server and two physical clusters as processes, tries the attacks
// of test/attack, and says how many held.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/attack"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	only := flag.String("run", "", "try only attacks whose names match this regular expression")
	flag.Parse()
	err := run(ctx, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names string) (err error) {
	only, err := regexp.Compile(names)
	if err != nil {
		return fmt.Errorf("reading -run: %w", err)
	}
	if err := process.Missing("atoll", "localcluster", "kubectl"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "atoll-attack-")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l := &lab{dir: dir}
	defer func() { err = errors.Join(err, l.stop()) }()
	if err := l.start(ctx); err != nil {
		return fmt.Errorf("starting the processes: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.path("atoll", "admin.kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading the admin's kubeconfig: %w", err)
	}
	config.Host = strings.TrimSuffix(config.Host, scope.Scope{Cluster: scope.Root}.Path())
	w := &attack.World{Config: config, Dir: l.path("atoll"), PID: l.server.PID(), Physical: map[string]*rest.Config{}, Admission: l.admission, Advertised: l.advertised}
	for _, name := range physicalClusters {
		if w.Physical[name], err = clientcmd.BuildConfigFromFlags("", l.path(name, "admin.kubeconfig")); err != nil {
			return fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
		}
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop()
	if err := attack.Run(ctx, w, only, os.Stdout); err != nil {
		return err
	}
	if !l.server.Running() {
		return errors.New("the server has ended")
	}
	return nil
}

var physicalClusters = []string{"east", "west"}

// lab is the processes.
type lab struct {
	dir      string
	server   *process.Process
	physical []*process.Process
	// admission and advertised are addresses of the server beside that where it listens.
	admission, advertised string
}

func (l *lab) path(elem ...string) string { return filepath.Join(append([]string{l.dir}, elem...)...) }

func (l *lab) start(ctx context.Context) error {
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		return err
	}
	if l.admission, err = ports.Address("127.0.0.1"); err != nil {
		return err
	}
	if l.advertised, err = ports.Address("127.0.0.9"); err != nil {
		return err
	}
	if l.server, err = process.Start(ctx, process.Spec{
		Path: process.Binary("atoll"), Log: l.path("atoll.log"), Ready: "atoll serves at ",
		Args: []string{"start", "--data-dir", l.path("atoll"), "--listen", address, "--admission-address", l.admission, "--advertise-address", l.advertised,
			"--tenant-egress-allow", "127.0.0.0/8", "--tenant-egress-deny", attack.DeniedNetwork, "--max-connections", strconv.Itoa(attack.MaxConnections)},
	}); err != nil {
		return err
	}
	root := process.Kubectl{Kubeconfig: l.path("atoll", "admin.kubeconfig"), Context: "root"}
	for _, name := range physicalClusters {
		p, err := process.Start(ctx, process.Spec{
			Path: process.Binary("localcluster"), Log: l.path(name + ".log"), Ready: " is ready ",
			Args: []string{"up", "--name", name, "--data-dir", l.path(name), "--nodes", "1"},
		})
		if err != nil {
			return err
		}
		l.physical = append(l.physical, p)
		if err := l.register(ctx, root, name); err != nil {
			return err
		}
	}
	for _, name := range physicalClusters {
		if _, err := root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/"+name); err != nil {
			return err
		}
	}
	return nil
}

// register has the server connect to a physical cluster.
func (l *lab) register(ctx context.Context, root process.Kubectl, name string) error {
	secret, err := root.Run(ctx, "create", "secret", "generic", name+"-kubeconfig", "--namespace=atoll-system",
		"--from-file=kubeconfig="+l.path(name, "admin.kubeconfig"), "--dry-run=client", "-o", "yaml")
	if err != nil {
		return err
	}
	if _, err := root.Apply(ctx, secret); err != nil {
		return err
	}
	sample, err := os.ReadFile(filepath.Join(process.Root(), "config", "samples", "physicalcluster.yaml"))
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	_, err = root.Apply(ctx, strings.ReplaceAll(string(sample), "NAME", name))
	return err
}

func (l *lab) stop() error {
	var errs []error
	for _, p := range append([]*process.Process{l.server}, l.physical...) {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}
