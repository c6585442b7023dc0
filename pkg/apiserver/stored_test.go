package apiserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

func TestAListIsTheLastOneButForWhatHasChanged(t *testing.T) {
	t.Parallel()
	type versions = []storage.Version
	at := func(name, version string) fleet.PhysicalCluster {
		c := fleet.PhysicalCluster{}
		c.Name, c.ResourceVersion = name, version
		return c
	}
	// list is what the watch cache answers to who knows the last one.
	list := func(t *testing.T, last *listed, stored versions) *listed {
		t.Helper()
		changed, items := storage.NewChanged(last.versions), []fleet.PhysicalCluster(nil)
		for _, v := range stored {
			c := at(v.Name, v.ResourceVersion)
			_, f, err := storage.VersionedAttrs(&c)
			if err != nil {
				t.Fatal(err)
			}
			if changed.Matches(f) {
				items = append(items, c)
			}
		}
		return last.but(changed, items)
	}
	known := versions{{Name: "a", ResourceVersion: "1"}, {Name: "b", ResourceVersion: "2"}}
	for name, test := range map[string]struct {
		stored versions
		same   bool
	}{
		"nothing has changed": {known, true},
		"one has changed":     {versions{{Name: "a", ResourceVersion: "3"}, {Name: "b", ResourceVersion: "2"}}, false},
		"one has come":        {versions{{Name: "a", ResourceVersion: "1"}, {Name: "aa", ResourceVersion: "3"}, {Name: "b", ResourceVersion: "2"}}, false},
		"one has gone":        {versions{{Name: "b", ResourceVersion: "2"}}, false},
		"all have gone":       {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := list(t, &listed{}, known)
			now := list(t, last, test.stored)
			var got versions
			for _, c := range now.objects {
				got = append(got, storage.Version{Name: c.Name, ResourceVersion: c.ResourceVersion})
			}
			if diff := cmp.Diff([]versions{test.stored, test.stored}, []versions{got, now.versions}); diff != "" {
				t.Error(diff)
			}
			if same := now == last; same != test.same {
				t.Errorf("it is the last one: %v", same)
			}
			if diff := cmp.Diff(known, last.versions); diff != "" {
				t.Errorf("what others have was changed: %s", diff)
			}
		})
	}
}
