package storage

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// ofLabels and ofFields are selectors of which a test finds out whether somebody has them.
type ofLabels struct{ labels.Selector }

type ofFields struct{ fields.Selector }

// A watch cache keeps watchers that have ended, and their selectors no longer than their requests.
func TestSelectorsOfAWatchThatHasEndedAreLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const watches = 20
		c, _, q := newQuietCache(t)
		defer c.stop()
		var gone atomic.Int64
		ctx, end := context.WithCancel(t.Context())
		var running []watch.Interface
		for range watches {
			l, f := &ofLabels{labels.SelectorFromSet(labels.Set{"app": "a"})}, &ofFields{fields.OneTermNotEqualSelector("metadata.name", "other")}
			runtime.AddCleanup(l, func(struct{}) { gone.Add(1) }, struct{}{})
			runtime.AddCleanup(f, func(struct{}) { gone.Add(1) }, struct{}{})
			p := storage.SelectionPredicate{Label: l, Field: f, GetAttrs: storage.DefaultNamespaceScopedAttr}
			w, err := c.Watch(ctx, "/pods/", storage.ListOptions{ResourceVersion: "100", Recursive: true, Predicate: p})
			if err != nil {
				t.Fatal(err)
			}
			running = append(running, w)
		}
		version := 100
		happens := func(name string, labels map[string]string) {
			version++
			q.events.Add(&example.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "default", ResourceVersion: fmt.Sprint(version), Labels: labels, Annotations: map[string]string{"kcp.io/cluster": "a"},
			}})
			synctest.Wait()
		}
		happens("a", map[string]string{"app": "a"})
		happens("b", map[string]string{"app": "b"})
		happens("other", map[string]string{"app": "a"})
		for _, w := range running {
			if e := <-w.ResultChan(); nameOf(e) != "a" {
				t.Fatalf("a watch sees %v, want the pod that it selects", e)
			}
			select {
			case e := <-w.ResultChan():
				t.Fatalf("a watch sees %v, which it does not select", e)
			default:
			}
		}
		end()
		for _, w := range running {
			w.Stop()
		}
		synctest.Wait()
		for tries := 0; gone.Load() < 2*watches && tries < 100; tries++ {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		if gone.Load() != 2*watches {
			t.Errorf("%d of %d selectors are let go", gone.Load(), 2*watches)
		}
		q.events.Stop()
	})
}

func TestALongSelectorIsShownInPart(t *testing.T) {
	t.Parallel()
	if got := shown("app=a"); got != "app=a" {
		t.Errorf("a short one is %q", got)
	}
	if got := shown(strings.Repeat("a", shownSelector+1)); len(got) != shownSelector+3 {
		t.Errorf("a long one has %d bytes", len(got))
	}
}
