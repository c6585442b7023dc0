package etcd_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/atoll-dev/atoll/pkg/apiserver/etcd"
)

func started(t *testing.T) *etcd.Server {
	t.Helper()
	s, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func TestALocalClientAndOneOverTheSocketSeeTheSame(t *testing.T) {
	s := started(t)
	local := s.Client()
	remote, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = remote.Close() }()
	for _, way := range []struct {
		name     string
		from, to *clientv3.Client
	}{{"local", local, remote}, {"remote", remote, local}} {
		events := way.to.Watch(t.Context(), way.name)
		put, err := way.from.Put(t.Context(), way.name, "value")
		if err != nil {
			t.Fatal(err)
		}
		got, err := way.to.Get(t.Context(), way.name)
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "value" || got.Kvs[0].ModRevision != put.Header.Revision {
			t.Fatalf("%s: %v, %v", way.name, got, err)
		}
		e := <-events
		if e.Err() != nil || len(e.Events) != 1 || string(e.Events[0].Kv.Value) != "value" {
			t.Fatalf("%s: %v", way.name, e)
		}
	}
	_, here := local.Get(t.Context(), "local", clientv3.WithRev(1000))
	_, there := remote.Get(t.Context(), "local", clientv3.WithRev(1000))
	if !errors.Is(here, rpctypes.ErrFutureRev) || !errors.Is(there, rpctypes.ErrFutureRev) {
		t.Errorf("errors %v and %v", here, there)
	}
}

// Called directly, nothing but ourselves keeps a read from a database that is closed.
func TestLocalClientsMayReadAndWatchUntilTheMemberEnds(t *testing.T) {
	s := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var working sync.WaitGroup
	var begun sync.WaitGroup
	for range 8 {
		client := s.Client()
		begun.Add(1)
		working.Go(func() {
			events := client.Watch(ctx, "key", clientv3.WithPrevKV())
			once := sync.OnceFunc(begun.Done)
			for {
				_, err := client.Put(ctx, "key", "value")
				if err == nil {
					_, err = client.Get(ctx, "key")
				}
				once()
				if err != nil {
					break
				}
			}
			for e := range events {
				if e.Err() != nil {
					break
				}
			}
		})
	}
	begun.Wait()
	s.Stop()
	working.Wait()
	if ctx.Err() != nil {
		t.Fatal("the calls did not end with the member")
	}
	if _, err := s.Client().Get(ctx, "key"); !errors.Is(err, rpctypes.ErrStopped) {
		t.Errorf("a read after the end: %v", err)
	}
}

// As when a server with a watch for each resource stops a moment after its start.
func TestManyLocalWatchesBeginAndEndAtATime(t *testing.T) {
	local := started(t).Client()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			ctx, stop := context.WithCancel(t.Context())
			var watches sync.WaitGroup
			for i := range 200 {
				watches.Go(func() {
					// Some end while others begin.
					own, end := context.WithTimeout(ctx, time.Duration(1+i%2*1000)*time.Millisecond)
					defer end()
					for e := range local.Watch(own, "k") {
						_ = e
					}
				})
			}
			time.AfterFunc(5*time.Millisecond, stop)
			watches.Wait()
			stop()
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the client and the member wait for each other")
	}
}
