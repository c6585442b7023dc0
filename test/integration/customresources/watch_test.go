package customresources

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// The watch cache of a resource begins with its first watch. That of one object has to show
// all writes before it, also those of others, of which etcd tells that watch cache nothing
// unless it is asked.
func TestAWatchOfOneObjectBeginsWhileOthersWrite(t *testing.T) {
	s := server.Start(t)
	one, other := s.NewCluster(t, "one"), s.NewCluster(t, "other")
	ctx, stop := context.WithCancel(other)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ctx.Err() == nil; n++ {
			written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("written-", n)}}
			if _, err := s.Kube.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, written, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				t.Errorf("writing: %v", err)
				return
			}
		}
	}()
	defer func() { stop(); <-stopped }()

	for n := range 8 {
		crd := definition(sized())
		crd.Spec.Group = fmt.Sprintf("n%d.example.com", n)
		crd.Name = widgets.Resource + "." + crd.Spec.Group
		define(one, t, s, crd)
		of := s.Dynamic.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: widgets.Version, Resource: widgets.Resource}).Namespace(metav1.NamespaceDefault)
		watched, err := of.Watch(one, metav1.ListOptions{FieldSelector: "metadata.name=a"})
		if err != nil {
			t.Fatal(err)
		}
		obj := widget("a", nil)
		obj.SetAPIVersion(crd.Spec.Group + "/" + widgets.Version)
		if _, err := of.Create(one, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-watched.ResultChan():
			if e.Type != watch.Added {
				t.Errorf("watch %d began with %v", n, e)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("watch %d sent nothing", n)
		}
		watched.Stop()
	}
}
