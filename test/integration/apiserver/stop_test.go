package apiserver

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// Whoever runs a server kills it half a minute after it was told to end; a watch that
// nobody ends would hold it for a whole one.
func TestAServerEndsItsWatchesWhenItEnds(t *testing.T) {
	s := server.StartIn(t, t.TempDir())
	ctx := s.NewCluster(t, "stop")
	var watches []<-chan struct{}
	for range 3 {
		w, err := s.Kube.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		ended := make(chan struct{})
		watches = append(watches, ended)
		go func() { // ends with the watch
			for range w.ResultChan() {
			}
			close(ended)
		}()
	}
	began := time.Now()
	s.Stop(t)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it ended after %s", took)
	}
	for _, ended := range watches {
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("a watch of a server that has ended goes on")
		}
	}
}
