package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func names(objs []*corev1.ConfigMap) []string {
	out := make([]string, 0, len(objs))
	for _, o := range objs {
		out = append(out, controller.RequestFor(o).String())
	}
	slices.Sort(out)
	return out
}

func TestEquallyNamedObjectsOfTwoLogicalClustersAreTwo(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.putUnseen(object("a", "default", "x", "1"))
	s.putUnseen(object("b", "default", "x", "2"))
	s.putUnseen(object("a", "other", "x", "3"))
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})

	if diff := cmp.Diff([]string{"a|default/x", "a|other/x", "b|default/x"}, names(i.List())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a|default/x", "a|other/x"}, names(i.ListCluster("a"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b|default/x"}, names(i.ListNamespace("b", "default"))); diff != "" {
		t.Error(diff)
	}
	if got, want := [3]int{i.CountCluster("a"), i.CountNamespace("a", "other"), i.CountCluster("c")}, [3]int{2, 1, 0}; got != want {
		t.Errorf("counts %v, want %v", got, want)
	}
	got, ok := i.Get(at("b", "default", "x"))
	if !ok || got.Data["in"] != "b" {
		t.Errorf("b's object is %v", got)
	}
	s.remove(at("a", "default", "x"), true)
	eventually(t, "a's object is gone", func() bool { _, ok := i.Get(at("a", "default", "x")); return !ok })
	if _, ok := i.Get(at("b", "default", "x")); !ok {
		t.Error("the deletion in a took b's object away")
	}
}

func TestARelistKeepsEqualNamesAndReportsWhatChangedUnseen(t *testing.T) {
	t.Parallel()
	s := newServer()
	for _, cluster := range []logicalcluster.Name{"a", "b", "c"} {
		s.putUnseen(object(cluster, "default", "x", "1"))
	}
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	var l log
	i.Handle(l.handle)
	l.take()

	s.putUnseen(object("b", "default", "x", "1"))
	s.remove(at("c", "default", "x"), false)
	s.putUnseen(object("d", "default", "x", "1"))
	s.expire()
	eventually(t, "the relist was handled", func() bool { return l.len() >= 3 })

	got := l.take()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"add d|default/x 1", "delete c|default/x 1", "update b|default/x 1"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a|default/x", "b|default/x", "d|default/x"}, names(i.List())); diff != "" {
		t.Error(diff)
	}
}

func TestAHandlerHearsWhatIsThereAndThenEachChange(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.putUnseen(object("a", "default", "x", "1"))
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	var l log
	i.Handle(l.handle)
	s.put(object("a", "default", "x", "1"))
	s.put(object("a", "default", "y", "2"))
	s.remove(at("a", "default", "x"), true)
	eventually(t, "all changes are handled", func() bool { return l.len() == 4 })
	want := []string{"add a|default/x 1", "update a|default/x 1", "add a|default/y 2", "delete a|default/x 1"}
	if diff := cmp.Diff(want, l.take()); diff != "" {
		t.Error(diff)
	}
}

func TestAHandlerKnowsWhatComesFromAWatch(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.putUnseen(object("a", "default", "x", "1"))
	var l log
	i := controller.NewInformer("test", &corev1.ConfigMap{}, controller.Lists(s), controller.InformerOptions[*corev1.ConfigMap]{})
	i.Handle(func(_, next *corev1.ConfigMap) { l.add(fmt.Sprintf("%s %t", next.Name, i.Watches())) })
	run(t, i.Run)
	eventually(t, "the informer watches", s.watched)
	s.put(object("a", "default", "y", "2"))
	eventually(t, "the watch is handled", func() bool { return l.len() == 2 })
	s.putUnseen(object("a", "default", "z", "3"))
	s.expire()
	eventually(t, "the list is handled", func() bool { return l.len() == 3 })
	if diff := cmp.Diff([]string{"x false", "y true", "z false"}, l.take()); diff != "" {
		t.Error(diff)
	}
}

func TestAnObjectMadeAgainUnderItsNameIsADeleteAndAnAdd(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.putUnseen(object("a", "default", "x", "1"))
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	var l log
	i.Handle(l.handle)
	l.take()
	s.putUnseen(object("a", "default", "x", "2"))
	s.expire()
	eventually(t, "both are handled", func() bool { return l.len() == 2 })
	if diff := cmp.Diff([]string{"delete a|default/x 1", "add a|default/x 2"}, l.take()); diff != "" {
		t.Error(diff)
	}
}

func TestAnInformerAsksForAllLogicalClustersUnlessUnscoped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		unscoped bool
		want     logicalcluster.Name
	}{
		"all logical clusters":   {want: scope.Wildcard},
		"one Kubernetes cluster": {unscoped: true, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer()
			start(t, s, controller.InformerOptions[*corev1.ConfigMap]{
				Unscoped: tc.unscoped,
				Tweak:    func(o *metav1.ListOptions) { o.LabelSelector = "a=b" },
			})
			s.mu.Lock()
			defer s.mu.Unlock()
			if diff := cmp.Diff([]logicalcluster.Name{tc.want, tc.want}, s.clusters); diff != "" {
				t.Error(diff)
			}
			for _, o := range s.options {
				if o.LabelSelector != "a=b" || o.SendInitialEvents != nil {
					t.Errorf("options %+v", o)
				}
			}
		})
	}
}

func TestObjectsOfAPhysicalClusterHaveNoLogicalCluster(t *testing.T) {
	t.Parallel()
	s := newServer()
	cm := object("", "default", "x", "1")
	cm.Annotations = nil
	s.putUnseen(cm)
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{Unscoped: true})
	if _, ok := i.Get(at("", "default", "x")); !ok {
		t.Errorf("not found; there are %v", names(i.List()))
	}
	if len(i.ListNamespace("", "default")) != 1 {
		t.Error("the namespace is empty")
	}
}

func TestAnIndexFindsObjectsByValue(t *testing.T) {
	t.Parallel()
	s := newServer()
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{
		Indexers: map[string]func(*corev1.ConfigMap) []string{
			"in": func(cm *corev1.ConfigMap) []string { return []string{cm.Data["in"], "any"} },
		},
	})
	s.put(object("a", "default", "x", "1"))
	s.put(object("b", "default", "x", "2"))
	eventually(t, "both are there", func() bool { return len(i.ByIndex("in", "any")) == 2 })
	if diff := cmp.Diff([]string{"a|default/x"}, names(i.ByIndex("in", "a"))); diff != "" {
		t.Error(diff)
	}
}

func TestManagedFieldsAreNotKept(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.putUnseen(object("a", "default", "x", "1"))
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{})
	if cm, _ := i.Get(at("a", "default", "x")); cm == nil || cm.ManagedFields != nil {
		t.Errorf("kept %v", cm)
	}
}

func TestATransformChoosesWhatIsKept(t *testing.T) {
	t.Parallel()
	s := newServer()
	i := start(t, s, controller.InformerOptions[*corev1.ConfigMap]{
		Transform: func(obj runtime.Object) (*corev1.ConfigMap, error) {
			cm := obj.(*corev1.ConfigMap)
			switch cm.Data["keep"] {
			case "no":
				return nil, nil
			case "broken":
				return nil, errors.New("broken")
			}
			cm.BinaryData = map[string][]byte{"transformed": nil}
			return cm, nil
		},
	})
	var l log
	i.Handle(l.handle)
	cm := object("a", "default", "x", "1")
	s.put(cm)
	broken := cm.DeepCopy()
	broken.Data["keep"] = "broken"
	s.put(broken)
	s.put(object("a", "default", "y", "2"))
	eventually(t, "y is there", func() bool { _, ok := i.Get(at("a", "default", "y")); return ok })
	if x, ok := i.Get(at("a", "default", "x")); !ok || x.BinaryData == nil || x.Data["keep"] != "" {
		t.Errorf("what cannot be transformed must stay as it was known, not %v", x)
	}
	no := cm.DeepCopy()
	no.Data["keep"] = "no"
	s.put(no)
	eventually(t, "x is not kept", func() bool { _, ok := i.Get(at("a", "default", "x")); return !ok })
	want := []string{"add a|default/x 1", "add a|default/y 2", "delete a|default/x 1"}
	if diff := cmp.Diff(want, l.take()); diff != "" {
		t.Error(diff)
	}
}
