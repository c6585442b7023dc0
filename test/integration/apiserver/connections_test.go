package apiserver

import (
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// Somebody who connects and says nothing takes neither the file descriptors of the
// process nor the places of users.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const most = 60
	s := server.StartWith(t, func(o *app.Options) { o.MaxConnections = most })
	ctx := scope.WithCluster(t.Context(), scope.Root)
	watch, err := s.Kube.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for range 5 * most {
		idle, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = idle.Close() })
	}
	for _, name := range []string{"a", "b", "c"} {
		fresh := rest.CopyConfig(s.Config)
		fresh.Dial = (&net.Dialer{}).DialContext // a transport, and a connection, of its own
		client := kubernetes.NewForConfigOrDie(scope.ScopedConfig(fresh))
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("who connects now is not served: %v", err)
		}
	}
	seen := map[string]bool{}
	for limit := time.After(20 * time.Second); len(seen) < 3; {
		select {
		case e, ok := <-watch.ResultChan():
			if !ok {
				t.Fatal("the watch ended: its connection gave way")
			}
			if cm, is := e.Object.(*corev1.ConfigMap); is && len(cm.Name) == 1 {
				seen[cm.Name] = true
			}
		case <-limit:
			t.Fatalf("of three objects the watch has %v", seen)
		}
	}
}
