// localcluster: a whole Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kwok nodes) in one process, plus every component as a sub-command of the same binary.
//
//	localcluster up --name east --data-dir D [--nodes 2] [--port 0]   all in one process
//	localcluster up2 ...                                              two clusters in one process (experiment)
//	localcluster kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|kubectl|etcd|kwok ...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 && !strings.HasPrefix(filepath.Base(os.Args[0]), "kube") {
		fmt.Fprintln(os.Stderr, "usage: localcluster up|up2|<component>")
		os.Exit(2)
	}
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if b := filepath.Base(os.Args[0]); b == "etcd" || strings.HasPrefix(b, "kube") { // called through a link
		os.Args = append([]string{"localcluster", b}, os.Args[1:]...)
		name = b
	}
	if strings.HasPrefix(name, "kube") {
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	switch name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(kcm.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	case "etcd":
		etcdmain.Main(append([]string{"etcd"}, os.Args[2:]...))
	case "up", "up2":
		fs := flag.NewFlagSet("up", flag.ExitOnError)
		o := Options{}
		fs.StringVar(&o.Name, "name", "local", "cluster name")
		fs.StringVar(&o.DataDir, "data-dir", "", "data directory")
		fs.StringVar(&o.Bind, "bind", "127.0.0.1", "address the API server listens on")
		fs.IntVar(&o.Port, "port", 0, "API server port (0: free port)")
		fs.IntVar(&o.Nodes, "nodes", 2, "simulated nodes")
		fs.StringVar(&o.ServiceCIDR, "service-cidr", "10.96.0.0/16", "")
		fs.StringVar(&o.KubeletNode, "kubelet-node", "", "name of a real node to make certificates for")
		fs.StringVar(&o.KubeletNodeIP, "kubelet-node-ip", "", "its address")
		fs.BoolVar(&o.Verbose, "v", false, "component logs to stderr")
		_ = fs.Parse(os.Args[2:])
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		defer cancel()
		var all []Options
		if name == "up2" {
			for i := range 2 {
				c := o
				c.Name = fmt.Sprintf("%s%d", o.Name, i+1)
				c.DataDir = fmt.Sprintf("%s%d", o.DataDir, i+1)
				all = append(all, c)
			}
		} else {
			all = []Options{o}
		}
		setup(o.Verbose)
		for _, c := range all {
			t := time.Now()
			cl, err := Start(ctx, c)
			if err != nil {
				fmt.Fprintln(os.Stderr, "error:", err)
				os.Exit(1)
			}
			fmt.Printf("%s ready in %.1fs kubeconfig=%s timings=%v\n", c.Name, time.Since(t).Seconds(), cl.Kubeconfig, cl.Timings)
		}
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond)
	default:
		fmt.Fprintln(os.Stderr, "unknown command", name)
		os.Exit(2)
	}
}
