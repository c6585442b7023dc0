// Package etcd runs one etcd member inside the process: the default storage of
// a control plane that needs no second one.
//
// Clients in the process call it directly (Server.Client). Others use sockets in the
// data directory, which only the owner can enter: whoever can talk to etcd as a client
// can read every logical cluster, and whoever can as a peer can stop it. Nothing of it
// listens on a network.
package etcd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/klog/v2"
)

const (
	member = "atoll"
	// quota is etcd's recommended maximum size of the database in bytes. An etcd that
	// reaches it takes no writes until somebody repairs it: pkg/apiserver/space stops
	// before.
	quota = 8 << 30
	// snapshotEvery is after how many writes the log begins anew. Until then it is in
	// memory; etcd's default, ten thousand writes and five thousand more for followers
	// that are behind, is a hundred megabytes when objects are large.
	snapshotEvery = 2000
	// keptForFollowers is what a single member keeps of the log: nobody is behind. Zero
	// would be etcd's default.
	keptForFollowers = 1
	// progressEvery is how often a watch of a quiet resource hears how far etcd is. The
	// watch caches compare themselves with etcd at the version that they know: one that is
	// older than a compaction (five minutes) is an error each time.
	progressEvery = time.Minute
	// maxSocketPath is below the limit of sun_path (108 on Linux, 104 on macOS).
	maxSocketPath = 100
	clientSocket  = "client.sock"
	peerSocket    = "peer.sock" // no longer than the other
)

// Config says where and how.
type Config struct {
	// Dir holds the database; it is made with mode 0700.
	Dir string
	// UnsafeNoSync leaves out fsync: for tests only, a power cut loses data.
	UnsafeNoSync bool
}

// Server is a running member.
type Server struct {
	// Endpoint is the client URL.
	Endpoint string

	etcd   *embed.Etcd
	local  local
	tmpDir string
	stop   sync.Once
	// ended is closed when Stop begins.
	ended chan struct{}
}

// Start returns when the member serves, or ctx ends.
func Start(ctx context.Context, config Config) (*Server, error) {
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory of etcd: %w", err)
	}
	s := &Server{ended: make(chan struct{})}
	sockets, err := s.sockets(config.Dir)
	if err != nil {
		return nil, err
	}
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, clientSocket)}
	// Nobody ever dials the peer address of a single member, but etcd wants to listen.
	// The advertised address is part of the member's identity and must not change from
	// start to start. Of a listener for peers etcd reads the path as the host.
	listenPeer := url.URL{Scheme: "unix", Host: filepath.Join(sockets, peerSocket)}
	advertisePeer := url.URL{Scheme: "http", Host: "localhost:2380"}

	c := embed.NewConfig()
	c.Name, c.Dir = member, config.Dir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{listenPeer}, []url.URL{advertisePeer}
	c.InitialCluster = member + "=" + advertisePeer.String()
	c.QuotaBackendBytes = quota
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEvery, keptForFollowers
	c.WatchProgressNotifyInterval = progressEvery
	c.UnsafeNoFsync = config.UnsafeNoSync
	c.MaxSnapFiles, c.MaxWalFiles = 0, 0 // see purge
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lastWords(os.Stderr, os.Exit))
	s.etcd, err = embed.StartEtcd(c)
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		s.Stop()
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-ctx.Done():
		s.Stop()
		return nil, fmt.Errorf("waiting for etcd: %w", ctx.Err())
	}
	s.Endpoint = client.String()
	purge(config.Dir, s.ended)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		<-s.ended
		end()
	}()
	go s.keepShort(life)
	return s, nil
}

// Failed delivers an error if the member ends on its own.
func (s *Server) Failed() <-chan error { return s.etcd.Err() }

// Usage is what the database holds and what it may hold, in bytes. What was deleted
// counts until the next compaction.
func (s *Server) Usage() (used, most uint64) {
	return uint64(max(s.etcd.Server.Backend().SizeInUse(), 0)), quota
}

// Stop ends the member and waits for it.
func (s *Server) Stop() { s.stop.Do(s.end) }

func (s *Server) end() {
	close(s.ended)
	if s.etcd != nil {
		if err := s.local.stop(); err != nil {
			klog.Background().Error(err, "Stopping etcd all the same")
		}
		s.etcd.Close()
	}
	if s.tmpDir != "" {
		_ = os.RemoveAll(s.tmpDir)
	}
}

// sockets chooses the directory of the sockets and removes those that a crash left there.
func (s *Server) sockets(data string) (string, error) {
	dir, err := filepath.Abs(data)
	if err != nil {
		return "", fmt.Errorf("resolving the data directory of etcd: %w", err)
	}
	if len(filepath.Join(dir, clientSocket)) > maxSocketPath {
		if s.tmpDir, err = os.MkdirTemp("", "atoll-"); err != nil {
			return "", fmt.Errorf("making a directory for the sockets of etcd: %w", err)
		}
		dir = s.tmpDir
	}
	for _, name := range []string{clientSocket, peerSocket} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			return "", fmt.Errorf("removing an old socket of etcd: %w", err)
		}
	}
	return dir, nil
}
