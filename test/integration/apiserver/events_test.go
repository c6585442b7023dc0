package apiserver

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-dev/atoll/test/framework/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// TestEventsExpire lets the time pass by ending the lease that etcd would end.
func TestEventsExpire(t *testing.T) {
	endpoint := etcd.Start(t)
	s := server.StartOn(t, t.TempDir(), endpoint)
	t.Cleanup(func() { s.Stop(t) })
	db, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx := s.NewCluster(t, "events")
	events := s.Kube.CoreV1().Events("default")
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "x"}, Reason: "Test"}
	if event, err = events.Create(ctx, event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	changes, err := events.Watch(ctx, metav1.ListOptions{ResourceVersion: event.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changes.Stop)
	stored, err := db.Get(ctx, "/registry/events/events/default/e")
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatalf("in etcd: %v, %v", stored, err)
	}
	lease := clientv3.LeaseID(stored.Kvs[0].Lease)
	left, err := db.TimeToLive(ctx, lease)
	if err != nil || left.TTL < 59*60 || left.TTL > 65*60 {
		t.Fatalf("it lives for %v, %v; want an hour", left, err)
	}
	if _, err := db.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-changes.ResultChan():
		if e.Type != watch.Deleted {
			t.Errorf("the watch sees %s %v", e.Type, e.Object)
		}
	case <-time.After(20 * time.Second):
		t.Error("the watch does not see that it is gone")
	}
	eventually(t, "the event is gone", func() error {
		if _, err := events.Get(ctx, "e", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}
