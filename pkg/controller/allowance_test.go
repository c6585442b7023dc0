package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// inventing lists some objects and then, by watch, one after the other as long as somebody
// takes them.
func inventing(listed int) ListWatch {
	object := func(n int) unstructured.Unstructured {
		u := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		u.SetName(fmt.Sprint("pod-", n))
		u.SetUID(types.UID(u.GetName()))
		u.SetResourceVersion(fmt.Sprint(n + 1))
		return u
	}
	return ListWatch{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList"}}
			list.SetResourceVersion(fmt.Sprint(listed))
			for n := range listed {
				list.Items = append(list.Items, object(n))
			}
			return list, nil
		},
		Watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			events := make(chan watch.Event)
			go func() {
				defer close(events)
				for n := listed; ; n++ {
					next := object(n)
					select {
					case events <- watch.Event{Type: watch.Added, Object: &next}:
					case <-ctx.Done():
						return
					}
				}
			}()
			return watch.NewProxyWatcher(events), nil
		},
	}
}

func TestWhatAServerInventsIsTakenUpToTheAllowance(t *testing.T) {
	t.Parallel()
	for name, listed := range map[string]int{"by watch": 3, "by list": 2000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 250
			allowance := NewAllowance(Held{Objects: 100, Bytes: 1 << 30}, func(context.Context) Held { return Held{Objects: most, Bytes: 1 << 30} })
			i := NewInformer("pods", &unstructured.Unstructured{}, inventing(listed), InformerOptions[*unstructured.Unstructured]{
				Unscoped: true, Allowance: allowance, Transform: func(obj runtime.Object) (*unstructured.Unstructured, error) {
					return obj.(*unstructured.Unstructured), nil
				},
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); i.Run(ctx) }()
			select {
			case <-allowance.Exceeded():
			case <-time.After(20 * time.Second):
				t.Fatalf("%d objects are held", allowance.Held().Objects)
			}
			if err := allowance.Err(); err == nil || !strings.Contains(err.Error(), "objects of about 0 MiB in memory, of 250 and 1024 MiB that are allowed") {
				t.Errorf("it says %v", err)
			}
			cancel() // it ends, although it takes nothing any more
			<-ended
			if held := allowance.Held().Objects; held != int64(len(i.List())) || held <= most || held > most+listedAtOnce {
				t.Errorf("%d objects are counted, %d are held, %d may be", held, len(i.List()), most)
			}
			if listed > most && i.HasSynced() {
				t.Error("a list that was not taken to its end counts as complete")
			}
		})
	}
}

func TestWhatGoesIsHeldNoMore(t *testing.T) {
	t.Parallel()
	allowance := NewAllowance(Held{Objects: 10, Bytes: 1 << 20}, nil)
	i := NewInformer("pods", &corev1.Pod{}, ListWatch{}, InformerOptions[*corev1.Pod]{Allowance: allowance})
	pod := func(name, uid, text string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", UID: types.UID(uid), Annotations: map[string]string{"text": text}}}
	}
	s := sink[*corev1.Pod]{i}
	for _, step := range []struct {
		what string
		do   func() error
		want []*corev1.Pod
	}{
		{"added", func() error { return s.Add(pod("a", "1", "short")) }, []*corev1.Pod{pod("a", "1", "short")}},
		{"changed", func() error { return s.Update(pod("a", "1", strings.Repeat("x", 1000))) }, []*corev1.Pod{pod("a", "1", strings.Repeat("x", 1000))}},
		{"made anew", func() error { return s.Update(pod("a", "2", "short")) }, []*corev1.Pod{pod("a", "2", "short")}},
		{"listed", func() error { return s.Replace([]any{pod("b", "3", ""), pod("c", "4", "")}, "9") }, []*corev1.Pod{pod("b", "3", ""), pod("c", "4", "")}},
		{"deleted", func() error { return s.Delete(pod("b", "3", "")) }, []*corev1.Pod{pod("c", "4", "")}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		var want Held
		for _, p := range step.want {
			want.Objects++
			want.Bytes += weigh(p)
		}
		if diff := cmp.Diff(want, allowance.Held()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
}
