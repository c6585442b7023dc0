// Command localnode is the software of a real Kubernetes node in one binary: called as
// kubelet or kube-proxy, or with one of them as its first argument, it is that.
//
//	localnode kubelet --config F --kubeconfig K
//	localnode kube-proxy --config F
//
// The tests with real pods (test/real) run it as nodes of localcluster: one binary, for
// each link takes half a minute and gigabytes of memory.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	command := commandOf(name)
	if command == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		command = commandOf(os.Args[0])
	}
	if command == nil {
		fmt.Fprintln(os.Stderr, "usage: localnode kubelet|kube-proxy FLAGS")
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

func commandOf(name string) *cobra.Command {
	switch name {
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background()) // it handles signals itself
	case "kube-proxy":
		return kubeproxy.NewProxyCommand()
	default:
		return nil
	}
}
