package controller

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestAWatchThatFailsBecauseItsContextEndedIsNoFailure(t *testing.T) {
	refused := errors.New("refused")
	s := &source{seen: &seen{}, lw: ListWatch{Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, refused }}}
	ctx, cancel := context.WithCancel(t.Context())
	if w, err := s.WatchWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, refused) {
		t.Errorf("got %v, %v while the context lives, want the error", w, err)
	}
	cancel()
	w, err := s.WatchWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case e, open := <-w.ResultChan():
		t.Errorf("got the event %v (open: %t) of a watch that never began", e, open)
	default:
	}
	w.Stop()
}
