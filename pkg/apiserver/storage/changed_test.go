package storage_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

func TestWhatIsNotAsItIsKnownIsSelected(t *testing.T) {
	t.Parallel()
	type v = storage.Version
	for name, test := range map[string]struct {
		known, list, selected, as []v
	}{
		"nothing":              {},
		"all is new":           {list: []v{{"a", "1"}, {"b", "2"}}, selected: []v{{"a", "1"}, {"b", "2"}}},
		"nothing has changed":  {known: []v{{"a", "1"}, {"b", "2"}}, list: []v{{"a", "1"}, {"b", "2"}}, as: []v{{"a", "1"}, {"b", "2"}}},
		"one has changed":      {known: []v{{"a", "1"}, {"b", "2"}}, list: []v{{"a", "3"}, {"b", "2"}}, selected: []v{{"a", "3"}}, as: []v{{"b", "2"}}},
		"one has come":         {known: []v{{"a", "1"}, {"c", "2"}}, list: []v{{"a", "1"}, {"b", "3"}, {"c", "2"}}, selected: []v{{"b", "3"}}, as: []v{{"a", "1"}, {"c", "2"}}},
		"one has gone":         {known: []v{{"a", "1"}, {"b", "2"}}, list: []v{{"b", "2"}}, as: []v{{"b", "2"}}},
		"all have gone":        {known: []v{{"a", "1"}, {"b", "2"}}},
		"one was made anew":    {known: []v{{"a", "1"}}, list: []v{{"a", "9"}}, selected: []v{{"a", "9"}}},
		"a list without order": {known: []v{{"a", "1"}, {"b", "2"}}, list: []v{{"b", "2"}, {"a", "1"}}, selected: []v{{"a", "1"}}, as: []v{{"b", "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := storage.NewChanged(test.known)
			var selected, as []v
			for _, o := range test.list {
				_, f, err := storage.VersionedAttrs(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion}})
				if err != nil {
					t.Fatal(err)
				}
				if changed.Matches(f) {
					selected = append(selected, o)
				}
			}
			for i, o := range test.known {
				if changed.As(i) {
					as = append(as, o)
				}
			}
			if diff := cmp.Diff([][]v{test.selected, test.as}, [][]v{selected, as}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Two servers write to one etcd, so that the watch cache of the one that lists is often behind, and lists twice.
func TestAListOfWhatHasChangedMissesNothing(t *testing.T) {
	versioned := func(s *setup) { s.attrs = storage.VersionedAttrs }
	a := newStore(t, versioned)
	b := newStore(t, func(s *setup) { versioned(s); s.endpoint = a.endpoint })
	ctx, r := in(t, "shop"), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	there, held := map[string]string{}, map[string]string{}
	selected := 0
	for step := range 200 {
		by, name := []*fixture{a, b}[r.IntN(2)], fmt.Sprintf("p-%02d", r.IntN(12))
		switch _, ok := there[name]; {
		case !ok:
			there[name] = by.create(ctx, t, pod(name)).ResourceVersion
		case r.IntN(3) == 0:
			by.delete(ctx, t, name)
			delete(there, name)
		default:
			there[name] = by.update(ctx, t, name, func(p *example.Pod) { p.Labels = map[string]string{"step": fmt.Sprint(step)} }).ResourceVersion
		}
		var known []storage.Version
		for _, name := range slices.Sorted(maps.Keys(held)) {
			known = append(known, storage.Version{Name: name, ResourceVersion: held[name]})
		}
		changed, list := storage.NewChanged(known), &example.PodList{}
		predicate := upstream.SelectionPredicate{Label: labels.Everything(), Field: changed, GetAttrs: storage.VersionedAttrs}
		if err := a.GetList(ctx, prefix, upstream.ListOptions{Recursive: true, Predicate: predicate}, list); err != nil {
			t.Fatal(err)
		}
		held = map[string]string{}
		for i, k := range known {
			if changed.As(i) {
				held[k.Name] = k.ResourceVersion
			}
		}
		for i := range list.Items {
			held[list.Items[i].Name] = list.Items[i].ResourceVersion
			selected++
		}
		if diff := cmp.Diff(there, held); diff != "" {
			t.Fatalf("after step %d: %s", step, diff)
		}
	}
	if selected > 200 {
		t.Errorf("%d objects were selected for 200 changes", selected)
	}
}
