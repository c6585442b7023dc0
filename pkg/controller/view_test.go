package controller_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestAStockListerSeesItsLogicalClusterOnly(t *testing.T) {
	s := newServer()
	for _, c := range []logicalcluster.Name{"shop", "shop2"} {
		s.putUnseen(object(c, "web", "a", "1"))
		s.putUnseen(object(c, "db", "b", "2"))
	}
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	f := controller.NewViewers(i).For("shop")
	lister := f.Core().V1().ConfigMaps().Lister()

	all, err := lister.List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop|db/b", "shop|web/a"}, names(all)); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	web, err := lister.ConfigMaps("web").List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop|web/a"}, names(web)); diff != "" {
		t.Errorf("in web (-want +got):\n%s", diff)
	}
	if a, err := lister.ConfigMaps("web").Get("a"); err != nil || a.Data["in"] != "shop" {
		t.Errorf("got %v (%v), want the one of shop", a, err)
	}
	if _, err := lister.ConfigMaps("web").Get("b"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func handlers(l *log) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.handle(nil, obj.(*corev1.ConfigMap)) },
		UpdateFunc: func(old, obj any) { l.handle(old.(*corev1.ConfigMap), obj.(*corev1.ConfigMap)) },
		DeleteFunc: func(obj any) { l.handle(obj.(*corev1.ConfigMap), nil) },
	}
}

func TestHandlersOfAViewSeeWhatIsThereAndThenChangesOfItsLogicalClusterOnly(t *testing.T) {
	s := newServer()
	s.putUnseen(object("shop", "web", "a", "1"))
	s.putUnseen(object("bank", "web", "a", "2"))
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	var l, all log
	i.Handle(all.handle)
	all.take()
	view := i.View("shop")
	r, err := view.AddEventHandler(handlers(&l))
	if err != nil {
		t.Fatal(err)
	}
	if !r.HasSynced() || !view.HasSynced() {
		t.Error("the view of a filled informer has not synced")
	}
	s.put(object("bank", "web", "a", "2"))
	s.put(object("shop", "web", "a", "1"))
	s.put(object("shop", "web", "a", "3")) // made again
	s.remove(at("shop", "web", "a"), true)
	eventually(t, "all events are in", func() bool { return all.len() == 5 })
	want := []string{"add shop|web/a 1", "update shop|web/a 1", "delete shop|web/a 1", "add shop|web/a 3", "delete shop|web/a 3"}
	if diff := cmp.Diff(want, l.take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestRemovedHandlersHearNothing(t *testing.T) {
	s := newServer()
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	var removed, closed, kept, all log
	i.Handle(all.handle)
	f := controller.NewViewers(i).For("shop")
	one, err := f.InformerFor(&corev1.ConfigMap{}, nil).AddEventHandler(handlers(&closed))
	if err != nil {
		t.Fatal(err)
	}
	view := i.View("shop")
	two, err := view.AddEventHandler(handlers(&removed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := view.AddEventHandler(handlers(&kept)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := view.RemoveEventHandler(two); err != nil {
		t.Fatal(err)
	}
	s.put(object("shop", "web", "a", "1"))
	eventually(t, "the event is in", func() bool { return all.len() == 1 })
	if removed.len() != 0 || closed.len() != 0 || kept.len() != 1 {
		t.Errorf("removed heard %v, closed %v, kept %v", removed.take(), closed.take(), kept.take())
	}
	if err := view.RemoveEventHandler(one); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

func TestAViewCannotBeChanged(t *testing.T) {
	i := start(t, newServer(), controller.InformerOptions[*corev1.ConfigMap]{})
	store := i.View("shop").GetStore()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for what, err := range map[string]error{
		"add": store.Add(obj), "update": store.Update(obj), "delete": store.Delete(obj), "replace": store.Replace(nil, ""),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestAViewOfATypeWithoutInformerPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	controller.NewViewers().For("shop").InformerFor(&corev1.ConfigMap{}, nil)
}
