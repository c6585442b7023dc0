package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options say which cluster to run.
type Options struct {
	// Name of the cluster: a DNS label. It prefixes the names of the nodes.
	Name string
	// DataDir keeps everything; it is made if absent.
	DataDir string
	// Bind is the address of the API server; empty is the loopback address.
	Bind string
	// Port of the API server; 0 keeps the one of the last run, or picks a free one.
	Port int
	// Nodes is the number of simulated nodes. Without any, nothing simulates pods.
	Nodes int
	// Pods are the addresses that simulated pods have; empty is DefaultPods.
	Pods string
	// Services are the ranges of addresses of Services, one for each family, separated by a comma; empty is DefaultServices.
	Services string
	// RealNode, if not empty, is the address of a node with a kubelet that somebody
	// else runs: it is called as RealNodeName says, and its keys are made.
	RealNode string
}

// Cluster is a running cluster.
type Cluster struct {
	// URL is where the API server listens.
	URL string
	// Kubeconfig is the path of the admin's kubeconfig.
	Kubeconfig string

	dir   dataDir
	parts []*part
	done  chan struct{}
	err   error
}

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 5 * time.Second
)

// Start runs a cluster and returns once pods can be scheduled on it. It runs
// until ctx ends or one of its components fails; Wait tells.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	dir, err := openDataDir(o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, Kubeconfig: dir.path("admin.kubeconfig"), done: make(chan struct{})}
	if o.Bind == "" {
		o.Bind = loopback
	}
	if o.Services == "" {
		o.Services = DefaultServices
	}
	if err := c.start(ctx, o); err != nil {
		c.stop()
		return nil, err
	}
	go c.run(ctx)
	return c, nil
}

// Wait returns after the cluster was stopped: nil if its context had ended.
func (c *Cluster) Wait() error {
	<-c.done
	return c.err
}

func (c *Cluster) start(ctx context.Context, o Options) error {
	listener, err := c.dir.listen(o.Bind, o.Port)
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	c.URL = "https://" + net.JoinHostPort(o.Bind, strconv.Itoa(port))
	if err := c.dir.save(port); err != nil {
		return err
	}
	keys, err := openPKI(c.dir, c.URL, o)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not usable within %s; -v shows what the components say", startTimeout))
	defer cancel()
	etcdURL, err := c.startEtcd(ctx)
	if err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, keys, listener, etcdURL, o); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading back the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 200, 400
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := c.until(ctx, func(ctx context.Context) error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("waiting for kube-apiserver: %w", err)
	}
	if err := c.startControllerManager(ctx, keys); err != nil {
		return err
	}
	if err := c.startScheduler(keys); err != nil {
		return err
	}
	if err := c.startNodes(ctx, client, o); err != nil {
		return err
	}
	if err := c.startVolumes(ctx, client); err != nil {
		return err
	}
	if err := c.until(ctx, func(ctx context.Context) error { return usable(ctx, client, o.Nodes) }); err != nil {
		return fmt.Errorf("waiting for nodes: %w", err)
	}
	return nil
}

// run waits for the end and stops everything.
func (c *Cluster) run(ctx context.Context) {
	defer close(c.done)
	c.err = c.firstFailure(ctx)
	c.stop()
}

// firstFailure returns nil when ctx ends, or the error of the first part that
// ends before.
func (c *Cluster) firstFailure(ctx context.Context) error {
	failed := make(chan error, len(c.parts))
	for _, p := range c.parts {
		go func() {
			<-p.done
			failed <- p.failure()
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// stop ends the parts, last started first, so that none loses what it stands on.
func (c *Cluster) stop() {
	for i := len(c.parts) - 1; i >= 0; i-- {
		c.parts[i].cancel()
		select {
		case <-c.parts[i].done:
		case <-time.After(stopTimeout):
		}
	}
	c.dir.close()
}

// until calls f until it succeeds, ctx ends, or a part fails.
func (c *Cluster) until(ctx context.Context, f func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		last := f(ctx)
		if last == nil {
			return nil
		}
		for _, p := range c.parts {
			if p.ended() {
				return p.failure()
			}
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return fmt.Errorf("%w (last: %v)", cause, last)
			}
			return errors.New("interrupted")
		case <-ticker.C:
		}
	}
}
