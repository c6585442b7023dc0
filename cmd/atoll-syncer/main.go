// Command atoll-syncer keeps the copies of one physical cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // rules in CEL name time zones, of which an image may have none

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/registration/join"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/skew"
	"github.com/atoll-dev/atoll/pkg/syncer/agent"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/podadmission"
	"github.com/atoll-dev/atoll/pkg/tunnel"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func main() { os.Exit(cli.Run(newCommand())) }

type options struct {
	physicalCluster, kubeconfig, bootstrapKubeconfig, physicalKubeconfig, healthAddress, admissionAddress string

	handshake *connection.Handshake
}

func newCommand() *cobra.Command {
	o := options{handshake: connection.NewHandshake(skew.Current())}
	c := &cobra.Command{
		Use:   "atoll-syncer",
		Short: "Keep the copies of one physical cluster",
		Long: "atoll-syncer connects to an Atoll server and to one physical cluster. It applies what is placed there,\n" +
			"removes what is to go, and reports how it is.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		Version:      skew.Current().String(),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx)
		},
	}
	c.SetContext(context.Background())
	c.Flags().StringVar(&o.physicalCluster, "physical-cluster", "", "name of the PhysicalCluster that is synced")
	c.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the Atoll server")
	c.Flags().StringVar(&o.bootstrapKubeconfig, "bootstrap-kubeconfig", "", "instead of --kubeconfig: one that kubectl atoll register --agent makes, with which the syncer asks for a certificate; it keeps that in the Secret atoll-system/"+join.SecretName+" of the physical cluster, and renews it")
	c.Flags().StringVar(&o.physicalKubeconfig, "physical-kubeconfig", "", "kubeconfig of the physical cluster; inside it, empty means the service account of the pod")
	c.Flags().StringVar(&o.healthAddress, "health-address", "", "address that serves /healthz, and /readyz: whether a server answers that works with this syncer; such as :8080; none if empty")
	c.Flags().StringVar(&o.admissionAddress, "admission-address", "", "address where the API server of the physical cluster asks about pods, such as :9443, see spec.pods.admission of the PhysicalCluster; none if empty")
	if err := c.MarkFlagRequired("physical-cluster"); err != nil {
		panic(err) // the flag is defined above
	}
	c.MarkFlagsOneRequired("kubeconfig", "bootstrap-kubeconfig")
	c.MarkFlagsMutuallyExclusive("kubeconfig", "bootstrap-kubeconfig")
	return c
}

func (o options) run(ctx context.Context) error {
	path := o.kubeconfig
	if o.bootstrapKubeconfig != "" {
		path = o.bootstrapKubeconfig
	}
	upstream, err := load(path)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the Atoll server: %w", err)
	}
	if upstream, err = unscoped(upstream); err != nil {
		return err
	}
	physical, err := load(o.physicalKubeconfig)
	if errors.Is(err, rest.ErrNotInCluster) {
		return errors.New("--physical-kubeconfig is missing: only inside a pod of the physical cluster it may be left out")
	}
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the physical cluster: %w", err)
	}
	if o.healthAddress != "" {
		stop := serveHealth(ctx, o.healthAddress, o.handshake)
		defer stop()
	}
	if o.bootstrapKubeconfig == "" {
		return o.sync(ctx, upstream, physical)
	}
	return o.join(ctx, upstream, physical)
}

// join syncs with a certificate that the syncer gets by itself, and anew with each that takes
// its place.
func (o options) join(ctx context.Context, server, physical *rest.Config) error {
	kube, err := kubernetes.NewForConfig(physical)
	if err != nil {
		return fmt.Errorf("making a client of the physical cluster: %w", err)
	}
	if err := rest.LoadTLSFiles(server); err != nil {
		return fmt.Errorf("reading the kubeconfig of the Atoll server: %w", err)
	}
	j := &join.Joiner{PhysicalCluster: o.physicalCluster, Server: server, Physical: kube}
	identity, err := j.Identity(ctx)
	for err == nil && ctx.Err() == nil {
		var next *join.Identity
		running, during := errgroup.WithContext(ctx)
		during, renewed := context.WithCancel(during)
		running.Go(func() error { return o.sync(during, identity.Config, physical) })
		running.Go(func() error {
			defer renewed()
			var err error
			if next, err = j.Renewed(during, identity); during.Err() != nil {
				return nil // what ended it is what counts
			}
			return err
		})
		err = running.Wait()
		identity = next
		renewed()
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// sync works until ctx is done.
func (o options) sync(ctx context.Context, upstream, physical *rest.Config) error {
	var admission *podadmission.Server
	if o.admissionAddress != "" {
		admission = podadmission.NewServer(o.admissionAddress, "")
	}
	a, err := agent.New(agent.Config{PhysicalCluster: o.physicalCluster, Upstream: upstream, Physical: physical, Kinds: workload.Builtin(), Admission: admission, Handshake: o.handshake})
	if err != nil {
		return err
	}
	link, err := reach.NewDirect(physical)
	if err != nil {
		return err
	}
	tunnels := &tunnel.Agent{PhysicalCluster: o.physicalCluster, Server: o.handshake.Wrap(upstream), Handle: func(ctx context.Context, stream io.ReadWriteCloser) {
		reach.Serve(ctx, stream, link)
	}}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return a.Run(ctx) })
	running.Go(func() error { return tunnels.Run(ctx) })
	return running.Wait()
}

// load reads a kubeconfig; without a path it is that of the pod.
func load(path string) (*rest.Config, error) {
	if path == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", path)
}

// unscoped takes the scope that kubeconfigs of the server carry off the host:
// the agent adds that of each request.
func unscoped(c *rest.Config) (*rest.Config, error) {
	c, _, _, err := scope.UnscopedConfig(c)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the Atoll server: %w", err)
	}
	return c, nil
}

// serveHealth answers that the process lives, and whether it can do anything.
func serveHealth(ctx context.Context, address string, handshake *connection.Handshake) (stop func()) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := handshake.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { // ends with Close
		if err := server.ListenAndServe(); err != nil && err != http.ErrServerClosed {
			klog.FromContext(ctx).Error(err, "Serving /healthz failed")
		}
	}()
	return func() { server.Close() }
}
