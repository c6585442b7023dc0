package app

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/atoll-dev/atoll/pkg/apiserver/audit"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Options are the flags of the server.
type Options struct {
	// DataDir holds keys, kubeconfig and, without EtcdServers, the database.
	DataDir string
	// Listen is host:port; port 0 takes a free one.
	Listen string
	// MaxConnections bounds how many connections are open at a time; 0 chooses.
	MaxConnections int
	// AdvertiseAddress is where other servers over the same etcd reach this one, if not at
	// Listen.
	AdvertiseAddress string
	// ExternalURL is how clients reach the server, if not by Listen.
	ExternalURL string
	// PodsServer is the URL by which pods on physical clusters reach the server, if they do.
	PodsServer string
	// AdmissionAddress is where the API servers of physical clusters that the server connects
	// to ask about pods, AdmissionURL how they reach it. Empty, they do not ask.
	AdmissionAddress, AdmissionURL string
	// EtcdServers are the endpoints of an etcd that is run by somebody else.
	EtcdServers                           []string
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// LogicalClusters are made if they do not exist, and get contexts.
	LogicalClusters []string
	// ReplaceKeys has the keys of DataDir be those of the control plane from now on.
	ReplaceKeys bool
	// ShutdownDelay is how long a server that shuts down serves on, while /readyz fails.
	ShutdownDelay time.Duration
	// Auth says who may be who, Audit what is written down.
	Auth  auth.Options
	Audit audit.Options
	// Egress says what tenants may have the server call.
	Egress egress.Options
	// UnsafeNoSync leaves out fsync in the embedded etcd: for tests.
	UnsafeNoSync bool
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{DataDir: defaultDataDir, Listen: "127.0.0.1:6443", Auth: auth.NewOptions(), Audit: audit.NewOptions()}
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "Directory for keys, kubeconfig and the embedded etcd.")
	fs.StringVar(&o.Listen, "listen", o.Listen, "Address to serve at, as host:port; port 0 takes a free one.")
	fs.IntVar(&o.MaxConnections, "max-connections", o.MaxConnections, "How many connections of clients are open at a time; 0 means half of the file descriptors that the process may have, and more than three quarters of them it never are. Connections on which nobody has authenticated give way first, then those of whoever has the most; admins' never.")
	fs.StringVar(&o.ExternalURL, "external-url", o.ExternalURL, "URL by which clients reach the server, if it is not https:// and the address of --listen.")
	fs.StringVar(&o.AdvertiseAddress, "advertise-address", o.AdvertiseAddress, "Address where other servers over the same --etcd-servers reach this one, as host:port, if it is not that of --listen: they pipe through its tunnels to physical clusters.")
	fs.StringVar(&o.PodsServer, "pods-server", o.PodsServer, "URL by which pods on physical clusters reach the server, https://HOST[:PORT]: they get tokens for it, and find it as pods find their API server. spec.pods.server of a PhysicalCluster says another one for it. Without any, pods get neither.")
	fs.StringVar(&o.AdmissionAddress, "admission-address", o.AdmissionAddress, "Address where the API servers of physical clusters that this server connects to ask about pods, as host:port; see spec.pods.admission of PhysicalClusters. None if empty.")
	fs.StringVar(&o.AdmissionURL, "admission-url", o.AdmissionURL, "URL by which they reach this very server at --admission-address, https://HOST[:PORT]; spec.pods.admission.url of a PhysicalCluster says another one for it.")
	fs.StringSliceVar(&o.EtcdServers, "etcd-servers", o.EtcdServers, "Endpoints of an etcd to use instead of the embedded one.")
	fs.StringVar(&o.EtcdCAFile, "etcd-cafile", o.EtcdCAFile, "Certificate authority of --etcd-servers.")
	fs.StringVar(&o.EtcdCertFile, "etcd-certfile", o.EtcdCertFile, "Client certificate for --etcd-servers.")
	fs.StringVar(&o.EtcdKeyFile, "etcd-keyfile", o.EtcdKeyFile, "Client key for --etcd-servers.")
	fs.StringArrayVar(&o.LogicalClusters, "logical-cluster", o.LogicalClusters, "Logical cluster to make if it does not exist and to write a context for; may be given more than once.")
	fs.BoolVar(&o.ReplaceKeys, "replace-keys", o.ReplaceKeys, "Take the keys in the data directory for those of the control plane from now on, although they are others than before: for keys that are lost. Kubeconfigs, certificates and tokens that were made with the others end.")
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay, "How long a server that shuts down serves on, while its /readyz fails and its answers send clients to other connections: longer than a load balancer needs to notice, if other servers stand beside it.")
	o.Auth.AddFlags(fs)
	o.Audit.AddFlags(fs)
	o.Egress.AddFlags(fs)
	fs.BoolVar(&o.UnsafeNoSync, "unsafe-no-fsync", o.UnsafeNoSync, "Do not flush the embedded etcd to disk: for tests, a power cut loses data.")
	_ = fs.MarkHidden("unsafe-no-fsync")
}

// Validate says what is wrong and how to put it right.
func (o *Options) Validate() error {
	var errs []error
	if o.DataDir == "" {
		errs = append(errs, errors.New("--data-dir: a directory is needed"))
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		errs = append(errs, fmt.Errorf("--listen %q: %w; give host:port, such as 127.0.0.1:6443", o.Listen, err))
	}
	if _, _, err := net.SplitHostPort(o.AdvertiseAddress); err != nil && o.AdvertiseAddress != "" {
		errs = append(errs, fmt.Errorf("--advertise-address %q: %w; give host:port, such as 10.0.0.11:6443", o.AdvertiseAddress, err))
	}
	if _, _, err := net.SplitHostPort(o.AdmissionAddress); err != nil && o.AdmissionAddress != "" {
		errs = append(errs, fmt.Errorf("--admission-address %q: %w; give host:port, such as 0.0.0.0:9443", o.AdmissionAddress, err))
	}
	if o.AdmissionURL != "" && o.AdmissionAddress == "" {
		errs = append(errs, errors.New("--admission-url: nothing listens without --admission-address"))
	}
	if o.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("--max-connections %d: give a number of connections, or 0 for half of the file descriptors", o.MaxConnections))
	}
	if o.ShutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay-duration %s: give a duration that is not negative, such as 20s", o.ShutdownDelay))
	}
	for _, f := range []struct{ flag, address string }{{"--external-url", o.ExternalURL}, {"--pods-server", o.PodsServer}, {"--admission-url", o.AdmissionURL}} {
		if f.address == "" {
			continue
		}
		if u, err := url.Parse(f.address); err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			errs = append(errs, fmt.Errorf("%s %q: give https://host[:port] without a path", f.flag, f.address))
		}
	}
	if err := o.Auth.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := o.Egress.Validate(); err != nil {
		errs = append(errs, err)
	}
	for _, name := range o.LogicalClusters {
		if problem := scope.ValidateName(name); problem != "" {
			errs = append(errs, fmt.Errorf("--logical-cluster %q: %s", name, problem))
		}
	}
	return errors.Join(errs...)
}
