package storage_test

import (
	"context"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/test/framework/etcd"
)

func TestAClaimIsThatOfOneRequestOfAllServers(t *testing.T) {
	t.Parallel()
	endpoint := etcd.Start(t)
	client, east := newClaims(t, endpoint)
	_, west := newClaims(t, endpoint)
	ctx := t.Context()

	first := take(t, east, "shop", "ip/10.96.0.9", true)
	take(t, east, "shop", "ip/10.96.0.9", false)
	take(t, west, "shop", "ip/10.96.0.9", false)
	take(t, west, "shop", "ip/10.96.0.90", true)
	take(t, west, "other", "ip/10.96.0.9", true)

	// The request may have been given up.
	gone, cancel := context.WithCancel(ctx)
	cancel()
	east.Release(gone, first)
	second := take(t, west, "shop", "ip/10.96.0.9", true)
	east.Release(ctx, first)
	take(t, east, "shop", "ip/10.96.0.9", false)

	// What a server leaves behind that dies ends with its lease, and a lease that has ended is replaced.
	leases, err := client.Leases(ctx)
	if err != nil || len(leases.Leases) != 2 {
		t.Fatalf("leases: %v, %v", leases, err)
	}
	for _, l := range leases.Leases {
		if left, err := client.TimeToLive(ctx, l.ID); err != nil || left.GrantedTTL < 60 || left.GrantedTTL > 180 {
			t.Errorf("a lease holds for %d s, %v", left.GrantedTTL, err)
		}
		if _, err := client.Revoke(ctx, l.ID); err != nil {
			t.Fatal(err)
		}
	}
	take(t, west, "shop", "ip/10.96.0.9", true)
	take(t, east, "shop", "ip/10.96.0.9", false)
	take(t, east, "other", "ip/10.96.0.9", true)
	west.Release(ctx, second) // it was that of another request
	take(t, east, "shop", "ip/10.96.0.9", false)
}

func newClaims(t *testing.T, endpoint string) (*clientv3.Client, *storage.Claims) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client, storage.NewClaims(client, "/registry/claims/")
}

func take(t *testing.T, claims *storage.Claims, cluster, value string, want bool) *storage.Claim {
	t.Helper()
	claim, ok, err := claims.Take(t.Context(), logicalcluster.Name(cluster), value)
	if err != nil || ok != want {
		t.Fatalf("claiming %s of %s: %v, %v", value, cluster, ok, err)
	}
	return claim
}
