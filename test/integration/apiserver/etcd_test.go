package apiserver

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/apiserver/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestAStoppedEtcdFailsRequestsAndTheServerRecoversByItself(t *testing.T) {
	config := etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoSync: true}
	db, err := etcd.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	s := server.StartOn(t, t.TempDir(), db.Endpoint)
	ctx := s.NewCluster(t, "outage")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "1"}}
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	db.Stop()
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cm.Name = "lost"
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(short, cm, metav1.CreateOptions{}); err == nil {
		t.Error("a write without etcd succeeded")
	}

	if db, err = etcd.Start(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(t); db.Stop() })
	server.Eventually(t, time.Minute, "the server writes again", func() error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "after-"}}
		created, err := s.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		// The controllers recovered too: they fill new namespaces.
		server.Eventually(t, time.Minute, "controllers work again", func() error {
			_, err := s.Kube.CoreV1().ServiceAccounts(created.Name).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		return nil
	})
	kept, err := s.Kube.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
	if err != nil || kept.Data["a"] != "1" {
		t.Errorf("what was written before: %v, %v", kept, err)
	}
}
