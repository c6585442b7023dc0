package storage_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/test/framework/etcd"
)

// Watch caches that share a stream ask on behalf of each other. One that begins at the next
// revision must not keep the others from learning that they are up to date.
func TestAQuietEtcdAnswersForProgressThoughAWatchBeginsAtTheNextRevision(t *testing.T) {
	t.Parallel()
	clients, err := storage.NewClients(storagebackend.TransportConfig{ServerList: []string{etcd.Start(t)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clients.Close() })
	client := clients.Client()
	put, err := client.Put(t.Context(), "/b/x", "")
	if err != nil {
		t.Fatal(err)
	}
	quiet := client.Watch(t.Context(), "/a/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithCreatedNotify())
	<-quiet
	next := client.Watch(t.Context(), "/c/", clientv3.WithPrefix(), clientv3.WithRev(put.Header.Revision+1), clientv3.WithCreatedNotify())
	<-next

	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond) // as watch caches do
	defer ticker.Stop()
	for {
		select {
		case r := <-quiet:
			if !r.IsProgressNotify() || r.Header.Revision < put.Header.Revision {
				t.Fatalf("%+v", r)
			}
			return
		case <-ticker.C:
			if err := client.RequestProgress(ctx); err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatal("it never heard that it is up to date")
		}
	}
}

func TestProgressThatEtcdAnswersForWritesNothing(t *testing.T) {
	t.Parallel()
	clients, err := storage.NewClients(storagebackend.TransportConfig{ServerList: []string{etcd.Start(t)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clients.Close() })
	client := clients.Client()
	quiet := client.Watch(t.Context(), "/a/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-quiet
	for range 10 {
		put, err := client.Put(t.Context(), "/b/x", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := client.RequestProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := <-quiet; !r.IsProgressNotify() || r.Header.Revision != put.Header.Revision {
			t.Fatalf("%+v, and %d was written last", r, put.Header.Revision)
		}
	}
}
