// Command localcluster runs a whole Kubernetes cluster in one process: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler and nodes whose pods
// are simulated. Tests and the quickstart use it as a physical cluster; see the
// package cluster for what it is made of.
//
//	localcluster up --name east --data-dir D [--nodes 3] [--port 0] [-v]
//
// With --nodes 0 nothing is simulated, and with --real-node there are the keys for a
// kubelet and a kube-proxy (the command localnode), which reach the server at --bind.
//
// It prints one line when the cluster is usable, keeps everything in its data
// directory, resumes from it, and stops on SIGTERM or SIGINT.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/test/localcluster/cluster"
)

const usage = `localcluster runs a whole Kubernetes cluster with simulated nodes in one process.

Usage:
  localcluster up --name NAME --data-dir DIR [--nodes 3] [--port 0] [--bind ADDRESS] [--real-node ADDRESS] [-v]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] != "up" {
		fmt.Fprint(stderr, usage)
		return flag.ErrHelp
	}
	var o cluster.Options
	var verbose bool
	flags := flag.NewFlagSet("localcluster up", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Name, "name", "", "name of the cluster and prefix of its nodes")
	flags.StringVar(&o.DataDir, "data-dir", "", "directory that keeps everything; made if absent, resumed from if not")
	flags.IntVar(&o.Port, "port", 0, "port of the API server; 0 keeps the one used before, or picks a free one")
	flags.StringVar(&o.Bind, "bind", "127.0.0.1", "address of the API server")
	flags.IntVar(&o.Nodes, "nodes", 3, "number of simulated nodes")
	flags.StringVar(&o.Services, "services", cluster.DefaultServices, "ranges of addresses of Services, one for each family; the first has that of --bind")
	flags.StringVar(&o.Pods, "pods", cluster.DefaultPods, "addresses of pods on simulated nodes; clusters of one network have their own")
	flags.StringVar(&o.RealNode, "real-node", "", "address of a node that somebody else runs; its keys are in DIR/pki when the cluster is ready")
	flags.BoolVar(&verbose, "v", false, "write the logs of all components to standard error")
	if err := flags.Parse(args[1:]); err != nil {
		return flag.ErrHelp
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	silence(!verbose)

	began := time.Now()
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s is ready after %.1fs: %s, %d simulated nodes, kubeconfig %s\n",
		o.Name, time.Since(began).Seconds(), c.URL, o.Nodes, c.Kubeconfig)
	return c.Wait()
}

// silence turns the logs of the components off: each is a process's worth.
func silence(quiet bool) {
	if !quiet {
		return
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("stderrthreshold", "FATAL")
	slog.SetDefault(slog.New(slog.DiscardHandler))
}
