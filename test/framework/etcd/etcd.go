// Package etcd runs throw-away etcd members inside tests: one member, a
// temporary directory, no fsync, ports that the kernel chooses on loopback.
package etcd

import (
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startTimeout bounds the start of one member; an idle machine needs 0.2 s.
const startTimeout = time.Minute

// Start runs a member until the test ends and returns its client URL.
func Start(t testing.TB) string {
	t.Helper()
	loopback := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c := embed.NewConfig()
	c.Name = "test"
	c.Dir = t.TempDir()
	c.UnsafeNoFsync = true
	c.LogLevel = "panic" // it logs its own shutdown as errors
	c.ListenClientUrls, c.ListenPeerUrls = loopback, loopback
	// Nobody dials these: they only have to be the same everywhere.
	advertised := url.URL{Scheme: "http", Host: "localhost:2380"}
	c.AdvertiseClientUrls, c.AdvertisePeerUrls = []url.URL{advertised}, []url.URL{advertised}
	c.InitialCluster = c.Name + "=" + advertised.String()
	member, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	t.Cleanup(member.Close)
	select {
	case <-member.Server.ReadyNotify():
	case err := <-member.Err():
		t.Fatalf("starting etcd: %v", err)
	case <-time.After(startTimeout):
		t.Fatalf("etcd did not start within %v", startTimeout)
	}
	return "http://" + member.Clients[0].Addr().String()
}
