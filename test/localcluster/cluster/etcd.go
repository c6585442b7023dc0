package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs etcd on free loopback ports and returns the URL for clients.
func (c *Cluster) startEtcd(ctx context.Context) (string, error) {
	free := []url.URL{{Scheme: "http", Host: loopback + ":0"}}
	config := embed.NewConfig()
	config.Name, config.Dir = c.dir.settings.Name, c.dir.path("etcd")
	config.ListenClientUrls, config.AdvertiseClientUrls = free, free
	config.ListenPeerUrls, config.AdvertisePeerUrls = free, free
	config.InitialCluster = config.Name + "=" + free[0].String()
	config.UnsafeNoFsync = true // survives kill -9; a crash of the machine may cost the test cluster
	config.LogLevel = "fatal"
	server, err := embed.StartEtcd(config)
	if err != nil {
		return "", fmt.Errorf("starting etcd: %w", err)
	}
	c.add("etcd", func(ctx context.Context) error {
		defer server.Close()
		select {
		case <-ctx.Done():
			return nil
		case <-server.Server.StopNotify():
			return errors.New("it stopped")
		case err := <-server.Err():
			return err
		}
	})
	select {
	case <-server.Server.ReadyNotify():
		return "http://" + server.Clients[0].Addr().String(), nil
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for etcd: %w", context.Cause(ctx))
	}
}
