package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/component-base/tracing"
	"k8s.io/utils/clock"
)

const (
	// connections is how many connections to etcd all resources share. Upstream
	// opens one for each resource, which costs nine goroutines and the buffers of
	// both ends.
	connections = 4
	// streamsEach is how many streams a connection has for watches. Resources that
	// share a stream get each other's progress notifications: the fewer streams, the
	// more watch caches learn of one that they did not ask for.
	streamsEach = 2

	// These are upstream's.
	dialTimeout      = 20 * time.Second
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// Clients makes the storages of all resources over a few connections to etcd.
type Clients struct {
	// clients are one for each stream of watches; those of one connection differ in
	// nothing else.
	clients   []*kubernetes.Client
	connected []*clientv3.Client
	// vacancies has a stream of its own: no progress is asked for there.
	vacancies *clientv3.Client
	// all has one, too: each event there is.
	all *clientv3.Client
	// compactor removes old revisions; the servers of one etcd take turns.
	compactor interface {
		etcd3.Compactor
		Stop()
	}
	next atomic.Uint32
}

// NewClients connects to the etcd of a configuration, whose history it compacts.
func NewClients(c storagebackend.TransportConfig, compactEach time.Duration) (*Clients, error) {
	tls, err := transport.TLSInfo{CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.TrustedCAFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("configuring TLS to etcd: %w", err)
	}
	if c.CertFile == "" && c.KeyFile == "" && c.TrustedCAFile == "" {
		tls = nil // plain connections
	}
	options := []otelgrpc.Option{otelgrpc.WithPropagators(tracing.Propagators()), otelgrpc.WithTracerProvider(c.TracerProvider)}
	s := &Clients{}
	var logger *zap.Logger // of the first, for all: each counts what it leaves out in half a MiB
	for range connections {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: c.ServerList, TLS: tls, Logger: logger,
			DialTimeout: dialTimeout, DialKeepAliveTime: keepaliveTime, DialKeepAliveTimeout: keepaliveTimeout,
			DialOptions: []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(options...))},
		})
		if err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("connecting to etcd: %w", err)
		}
		logger = client.GetLogger()
		s.connected = append(s.connected, client)
		for range streamsEach {
			s.clients = append(s.clients, withStream(client, clientv3.NewWatcher(client)))
		}
	}
	s.vacancies = withStream(s.connected[0], clientv3.NewWatcher(s.connected[0])).Client
	s.all = withStream(s.connected[1], clientv3.NewWatcher(s.connected[1])).Client
	s.compactor = etcd3.NewCompactor(s.connected[0], compactEach, clock.RealClock{}, nil)
	if err := s.await(); err != nil {
		_ = s.Close()
		return nil, err
	}
	checkProgress(s.connected[0], c.ServerList...)
	return s, nil
}

// NewLocalClients does the same with an etcd in this process, of which make gives one
// client after the other: they call it, and there is nothing to connect to.
func NewLocalClients(make func() *clientv3.Client, compactEach time.Duration) *Clients {
	s := &Clients{}
	for range connections * streamsEach {
		client := make()
		s.clients = append(s.clients, withStream(client, client.Watcher))
	}
	client := make()
	s.vacancies = withStream(client, client.Watcher).Client
	s.all = make()
	s.compactor = etcd3.NewCompactor(client, compactEach, clock.RealClock{}, nil)
	checkProgress(client, localMember)
	return s
}

// localMember names the etcd in this process where an endpoint is to be named.
const localMember = "local"

// checkProgress finds out whether etcd can be asked for progress: watch caches do so only then,
// and what has to wait for a cache that nothing tells waits in vain. Upstream asks the clients
// of storages, which have no endpoints here.
func checkProgress(client *clientv3.Client, endpoints ...string) {
	feature.DefaultFeatureSupportChecker.CheckClient(client.Ctx(), member{client, endpoints}, storage.RequestWatchProgress)
}

// member answers for the version of an etcd.
type member struct {
	*clientv3.Client
	endpoints []string
}

// Endpoints are those that were configured.
func (m member) Endpoints() []string { return m.endpoints }

// await returns when etcd answers.
func (s *Clients) await() error {
	ctx, cancel := context.WithTimeout(s.connected[0].Ctx(), dialTimeout)
	defer cancel()
	for _, client := range s.connected {
		conn := client.ActiveConnection()
		for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
			conn.Connect()
			if !conn.WaitForStateChange(ctx, state) {
				return fmt.Errorf("connecting to etcd at %v: %w", client.Endpoints(), context.Cause(ctx))
			}
		}
	}
	return nil
}

// Close ends the connections. All storages have been destroyed.
func (s *Clients) Close() error {
	if s.compactor != nil {
		s.compactor.Stop()
	}
	var errs []error
	if s.vacancies != nil {
		errs = append(errs, s.vacancies.Watcher.Close())
	}
	if s.all != nil {
		errs = append(errs, s.all.Watcher.Close())
	}
	for _, client := range s.clients {
		errs = append(errs, client.Watcher.Close())
	}
	for _, client := range s.connected {
		errs = append(errs, client.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the connections to etcd: %w", err)
	}
	return nil
}

// withStream is client with a watcher that it shares with no others, and so a stream.
func withStream(client *clientv3.Client, watcher clientv3.Watcher) *kubernetes.Client {
	own := clientv3.NewCtxClient(client.Ctx())
	own.Cluster, own.KV, own.Lease, own.Maintenance = client.Cluster, etcd3.NewETCDLatencyTracker(client.KV), client.Lease, client.Maintenance
	own.Watcher = &progressing{Watcher: watcher, kv: client.KV}
	k := &kubernetes.Client{Client: own}
	k.Kubernetes = waiting{*k}
	return k
}

// Client is one of the clients, for whoever needs no storage.
func (s *Clients) Client() *kubernetes.Client {
	return s.clients[int(s.next.Add(1))%len(s.clients)]
}

// Raw is a RawStorage.
func (s *Clients) Raw(config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, prefix string) (storage.Interface, factory.DestroyFunc, error) {
	raw, err := newRaw(s.Client(), s.compactor, config, newFunc, newListFunc, prefix)
	if err != nil {
		return nil, nil, err
	}
	return raw, sync.OnceFunc(raw.Close), nil
}

// closing is a storage that can be closed.
type closing interface {
	storage.Interface
	Close()
}

// newRaw makes the storage of a resource over a client; compactor may be nil.
func newRaw(client *kubernetes.Client, compactor etcd3.Compactor, config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, prefix string) (closing, error) {
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	raw, err := etcd3.New(client, compactor, config.Codec, newFunc, newListFunc, config.Prefix, prefix, config.GroupResource,
		transformer, config.LeaseManagerConfig, etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	if err != nil {
		return nil, fmt.Errorf("making the storage of %s: %w", config.GroupResource, err)
	}
	return raw, nil
}
