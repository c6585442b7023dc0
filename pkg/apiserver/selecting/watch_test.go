package selecting

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

func node(name, color string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"color": color}}}
}

func TestSelectedObjectsComeAndGoAsTheirLabelsChange(t *testing.T) {
	below := watch.NewFakeWithChanSize(10, false)
	red := storage.SelectionPredicate{Label: labels.SelectorFromSet(labels.Set{"color": "red"}), Field: fields.Everything(),
		GetAttrs: func(obj runtime.Object) (labels.Set, fields.Set, error) { return obj.(*corev1.Node).Labels, nil, nil }}
	w := Watch(below, red, []watch.Event{{Type: watch.Added, Object: node("a", "red")}, {Type: watch.Added, Object: node("b", "blue")}},
		func(e watch.Event) watch.Event { return e })
	below.Modify(node("a", "red"))
	below.Modify(node("b", "red"))
	below.Modify(node("a", "blue"))
	below.Modify(node("a", "green"))
	below.Delete(node("a", "green"))
	below.Modify(node("unknown", "blue"))
	below.Add(node("a", "red"))
	below.Delete(node("b", "red"))
	below.Stop()
	var got []string
	for e := range w.ResultChan() {
		got = append(got, string(e.Type)+" "+e.Object.(*corev1.Node).Name)
	}
	want := []string{"ADDED a", "MODIFIED a", "ADDED b", "DELETED a", "DELETED unknown", "ADDED a", "DELETED b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAWatchEndsWithItsWatcher(t *testing.T) {
	below := watch.NewFake()
	w := Watch(below, storage.Everything, []watch.Event{{Type: watch.Added, Object: node("a", "")}}, func(e watch.Event) watch.Event { return e })
	w.Stop()
	for range w.ResultChan() {
	}
	if !below.IsStopped() {
		t.Error("the watch below goes on")
	}
}
