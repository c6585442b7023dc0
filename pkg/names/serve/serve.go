package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/names"
)

// Config is what a Server works with.
type Config struct {
	// Physical is the way to the physical cluster.
	Physical *rest.Config
	// Namespace is where the Services are that say which port is whose: its own.
	Namespace string
	// Address is where the ports are opened; empty means all addresses.
	Address string
	// Upstreams are the resolvers to ask, see Upstreams.
	Upstreams []string
	// Internal are domains that nobody is asked for.
	Internal []string
	// Ready is called when all ports are open that there are at the start; nil does nothing.
	Ready func()
}

// Server answers.
type Server struct {
	watcher   *watcher
	zones     *zones
	listeners *listeners
	changed   chan struct{}
	known     map[names.Tenant]names.Server
	ready     atomic.Bool
	onReady   func()
}

// New makes a Server.
func New(c Config) (*Server, error) {
	kube, err := kubernetes.NewForConfig(c.Physical)
	if err != nil {
		return nil, fmt.Errorf("reading the way to the physical cluster: %w", err)
	}
	if len(c.Upstreams) == 0 {
		return nil, fmt.Errorf("there is no resolver to ask for other names")
	}
	s := &Server{zones: newZones(names.Policy{Internal: c.Internal}), changed: make(chan struct{}, 1), known: map[names.Tenant]names.Server{}, onReady: c.Ready}
	s.listeners = &listeners{address: c.Address, zones: s.zones, resolve: newResolver(c.Upstreams), open: map[int]*listener{}}
	s.watcher, err = newWatcher(kube, c.Namespace, s.zones, s.notify)
	return s, err
}

func (s *Server) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// retryInterval is how often a port is tried that could not be opened.
const retryInterval = 5 * time.Second

// Run answers until ctx is done.
func (s *Server) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer s.listeners.close()
	synced := make(chan struct{})
	running.Go(func() { s.watcher.run(ctx, func() { close(synced) }) })
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return
		case <-synced:
			waiting = false
		case <-time.After(listTimeout):
			klog.FromContext(ctx).Info("Still reading what is on the physical cluster; no port is open before")
		}
	}
	for {
		failed := s.apply(ctx)
		if !s.ready.Swap(true) && s.onReady != nil {
			s.onReady()
		}
		var again <-chan time.Time
		if failed > 0 {
			again = time.After(retryInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-again:
		}
	}
}

// apply opens and closes ports as they are allocated now.
func (s *Server) apply(ctx context.Context) (failed int) {
	ports, servers, wrong := s.watcher.allocated()
	for name, err := range wrong {
		klog.FromContext(ctx).Error(err, "A Service gives nobody a port", "name", name)
	}
	for tenant := range s.known {
		if _, ok := servers[tenant]; !ok {
			s.zones.setServer(tenant, names.Server{})
		}
	}
	for tenant, server := range servers {
		if s.known[tenant] != server {
			s.zones.setServer(tenant, server)
		}
	}
	s.known = servers
	return s.listeners.set(ctx, ports)
}

// ServeHealth serves /healthz, and /readyz once all ports are open, until ctx is done.
func (s *Server) ServeHealth(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "reading what is on the physical cluster", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("opening --health-address: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}
