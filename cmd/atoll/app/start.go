package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	clientv3 "go.etcd.io/etcd/client/v3"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver"
	"github.com/atoll-dev/atoll/pkg/apiserver/connections"
	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/etcd"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/apiserver/space"
	"github.com/atoll-dev/atoll/pkg/controllers/physicalclusters"
	"github.com/atoll-dev/atoll/pkg/controllers/placedkinds"
	"github.com/atoll-dev/atoll/pkg/sharing"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/podadmission"
	"github.com/atoll-dev/atoll/pkg/tunnel"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// settleDelay is after which time the memory of the start is returned to the system.
const settleDelay = 3 * time.Second

// Server is a running server.
type Server struct {
	// URL is its base URL, without a scope.
	URL string
	// Kubeconfig is the path of the admin's kubeconfig.
	Kubeconfig string

	maps *sharing.Maps
	done chan struct{}
	err  error
}

// Check reports damage inside the server that it does not notice itself: what is
// shared between logical clusters and was changed all the same.
func (s *Server) Check() error { return s.maps.Check() }

// Wait returns when the server has ended; nil after a stop that was asked for.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// Start runs the server until ctx ends; it returns when the server is ready.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var cleanup cleanups
	defer func() {
		if err != nil {
			cleanup.run()
		}
	}()
	release, err := lockDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	cleanup.add(release)
	keys, err := pki.Load(pkiDir(o.DataDir))
	if err != nil {
		return nil, err
	}
	listener, err := listen(o.Listen)
	if err != nil {
		return nil, err
	}
	cleanup.add(func() { _ = listener.Close() })
	s := &Server{URL: baseURL(o, listener), maps: &sharing.Maps{}, done: make(chan struct{})}
	certFile, keyFile, err := keys.Serving(servingHosts(o, listener))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cleanup.add(func() { cancel(nil) })
	// A server that shuts down serves on for a while.
	serving, served := context.WithCancel(context.WithoutCancel(ctx))
	cleanup.add(served)
	var room *space.Guard
	var client func() *clientv3.Client
	alone := len(o.EtcdServers) == 0
	if alone {
		db, err := etcd.Start(ctx, etcd.Config{Dir: filepath.Join(o.DataDir, "etcd"), UnsafeNoSync: o.UnsafeNoSync})
		if err != nil {
			return nil, explain(err)
		}
		cleanup.add(db.Stop)
		o.EtcdServers, client = []string{db.Endpoint}, db.Client
		files, err := space.OpenFiles()
		if err != nil {
			return nil, err
		}
		cleanup.add(files.Close)
		room = newRoom(o.DataDir, db, files)
		go func() {
			select {
			case err := <-db.Failed():
				cancel(fmt.Errorf("etcd ended: %w", err))
			case <-ctx.Done():
			}
		}()
	}
	advertise, err := advertised(o, listener, alone)
	if err != nil {
		return nil, err
	}
	guard, err := egress.NewGuard(o.Egress, append([]string{listener.Addr().String(), advertise, o.AdmissionAddress}, o.EtcdServers...)...)
	if err != nil {
		return nil, err
	}
	kinds := placedkinds.NewCatalog(workload.Builtin())
	c := &composition{url: s.URL, advertise: advertise, podsServer: o.PodsServer, kinds: kinds, keys: keys, keysDir: pkiDir(o.DataDir), replaceKeys: o.ReplaceKeys, egress: guard, maps: s.maps, streams: pods.NewStreams(), tunnels: tunnel.NewPool(), refusals: physicalclusters.NewRefusals(clock.RealClock{})}
	if o.AdmissionAddress != "" {
		c.admits = podadmission.NewServer(o.AdmissionAddress, o.AdmissionURL)
	}
	server, err := apiserver.New(serving, apiserver.Config{
		Listener: connections.Bound(listener, func() int { return connections.Most(o.MaxConnections) }), CertFile: certFile, KeyFile: keyFile, PKI: keys,
		EtcdServers: o.EtcdServers, EtcdCAFile: o.EtcdCAFile, EtcdCertFile: o.EtcdCertFile, EtcdKeyFile: o.EtcdKeyFile, Etcd: client,
		Admission: c.admission, Kinds: kinds, URL: s.URL, Egress: guard, Maps: s.maps, Auth: o.Auth, Audit: o.Audit, Space: room, ShutdownDelay: o.ShutdownDelay,
		Reach: c.reach, Streams: c.streams, Tunnels: c.acceptTunnel, GiveStream: c.giveStream, SyncerRefused: c.refusals.Note,
		Bind: func(ctx context.Context, namespace string, b *placementv1alpha1.PlacementBinding, dryRun bool) error {
			return c.chain.Bind(ctx, namespace, b, dryRun)
		},
		Bootstrap: func(ctx context.Context, name logicalcluster.Name) error { return c.bootstrap(ctx, name) },
	})
	if err != nil {
		return nil, err
	}
	go func() { // ends when the server does
		if err := server.Continuity.Run(serving); err != nil {
			cancel(err)
		}
	}()
	ready := make(chan error, 1)
	if err := server.Generic.AddPostStartHook("atoll-controllers", func(hook genericapiserver.PostStartHookContext) error {
		err := c.start(hook, server, o.LogicalClusters)
		ready <- err
		if err != nil {
			<-hook.Done() // whoever waits for ready ends the server; for an error upstream would end the process, with all stacks
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("adding the controllers: %w", err)
	}
	go func() {
		defer close(s.done)
		s.err = server.Generic.PrepareRun().RunWithContext(ctx)
		if cause := context.Cause(ctx); s.err == nil && !errors.Is(cause, context.Canceled) {
			s.err = cause
		}
		served()
		c.tunnels.Close()
		c.wait()
		cleanup.run()
	}()
	select {
	case err = <-ready:
	case <-s.done:
		err = s.err
	}
	if err != nil {
		cancel(err)
		<-s.done
		return nil, err
	}
	// What the start made and dropped would stay with the process for minutes. What
	// begins with it has settled by then.
	time.AfterFunc(settleDelay, debug.FreeOSMemory)
	s.Kubeconfig, err = writeKubeconfig(keys, o.DataDir, s.URL, o.LogicalClusters)
	if err != nil {
		cancel(err)
		<-s.done
		return nil, err
	}
	return s, nil
}

func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--listen %s: the address is taken by another process; stop that one or choose another port", address)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	}
	return l, nil
}

// baseURL is how clients reach the server.
func baseURL(o Options, l net.Listener) string {
	if o.ExternalURL != "" {
		u, err := url.Parse(o.ExternalURL)
		if err == nil {
			return "https://" + u.Host
		}
	}
	address := l.Addr().(*net.TCPAddr)
	host := address.IP.String()
	if address.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(address.Port))
}

func servingHosts(o Options, l net.Listener) []string {
	hosts := []string{"localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsUnspecified() {
		hosts = append(hosts, ip.String())
	} else if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	for _, address := range []string{o.ExternalURL, o.PodsServer} {
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// advertised is where other servers reach this one; empty if there are none: an embedded etcd is
// nobody else's.
func advertised(o Options, l net.Listener, alone bool) (string, error) {
	if alone || o.AdvertiseAddress != "" {
		return o.AdvertiseAddress, nil
	}
	at := l.Addr().(*net.TCPAddr)
	if !at.IP.IsUnspecified() {
		return at.String(), nil
	}
	ip, err := utilnet.ResolveBindAddress(at.IP)
	if err != nil {
		return "", fmt.Errorf("--advertise-address is needed: this machine has no address where other servers would find it: %w", err)
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(at.Port)), nil
}

// explain turns what a user can mend into a sentence.
func explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk of the data directory is full: free some space and start again: %w", err)
	}
	return err
}

// cleanups runs what was added, last first, once.
type cleanups struct {
	once  sync.Once
	funcs []func()
}

func (c *cleanups) add(f func()) { c.funcs = append(c.funcs, f) }

func (c *cleanups) run() {
	c.once.Do(func() {
		for i := len(c.funcs) - 1; i >= 0; i-- {
			c.funcs[i]()
		}
		klog.Flush()
	})
}
