// Command atoll-dns answers DNS for the pods of logical clusters on one physical cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"

	"github.com/atoll-dev/atoll/pkg/names/serve"
)

func main() { os.Exit(cli.Run(newCommand())) }

type options struct {
	kubeconfig, namespace, listenAddress, healthAddress, resolvConf string
	upstreams, internal                                             []string
}

func newCommand() *cobra.Command {
	o := options{}
	c := &cobra.Command{
		Use:   "atoll-dns",
		Short: "Answer DNS for the pods of logical clusters on one physical cluster",
		Long: "atoll-dns runs on a physical cluster. It listens at a port for each logical cluster that has pods there, and answers\n" +
			"with the names of that logical cluster. Other names are asked of the resolver of its own pod.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, c.OutOrStdout())
		},
	}
	c.SetContext(context.Background())
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the physical cluster; empty means the service account of the pod")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "its own namespace, where the Services are that say which port is whose; by default that of the environment variable POD_NAMESPACE")
	f.StringVar(&o.listenAddress, "listen-address", "", "address at which ports are opened; all if empty")
	f.StringVar(&o.healthAddress, "health-address", "", "address that serves /healthz and /readyz, such as :8080; none if empty")
	f.StringSliceVar(&o.upstreams, "upstream", nil, "resolver that is asked for other names, ADDRESS[:PORT]; by default those of --resolv-conf")
	f.StringVar(&o.resolvConf, "resolv-conf", "/etc/resolv.conf", "file that names the resolvers that are asked for other names")
	f.StringSliceVar(&o.internal, "internal-domain", nil, "domain that nobody is asked for, beside cluster.local: that of the physical cluster, if it is another one")
	return c
}

func (o options) run(ctx context.Context, out io.Writer) error {
	if o.namespace == "" {
		return errors.New("--namespace is missing: name the namespace that atoll-dns runs in")
	}
	physical, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if o.kubeconfig == "" {
		physical, err = rest.InClusterConfig()
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return errors.New("--kubeconfig is missing: only inside a pod of the physical cluster it may be left out")
	}
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the physical cluster: %w", err)
	}
	upstreams, err := serve.Upstreams(o.upstreams, o.resolvConf)
	if err != nil {
		return err
	}
	s, err := serve.New(serve.Config{
		Physical: physical, Namespace: o.namespace, Address: o.listenAddress, Upstreams: upstreams, Internal: o.internal,
		Ready: func() { fmt.Fprintln(out, "atoll-dns answers") },
	})
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	if o.healthAddress != "" {
		running.Go(func() error { return s.ServeHealth(ctx, o.healthAddress) })
	}
	running.Go(func() error { s.Run(ctx); return nil })
	return running.Wait()
}
