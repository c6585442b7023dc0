package storage_test

import (
	"fmt"
	"slices"
	"testing"
)

func TestAConsistentListShowsEveryWriteBeforeIt(t *testing.T) {
	a := newStore(t, nil)
	// Another server writes to the same etcd, so that the watch cache of this one
	// is always a little behind.
	b := newStore(t, func(s *setup) { s.endpoint = a.endpoint })
	ctx, other := in(t, "shop"), in(t, "shop-too")
	var want []string
	for i := range 30 {
		name := fmt.Sprintf("p-%02d", i)
		a.create(other, t, pod(name))
		if i%2 == 0 {
			b.create(ctx, t, pod(name))
			want = append(want, name)
		}
		if i%3 == 0 {
			b.create(in(t, "third"), t, pod(name))
		}
		var got []string
		for _, n := range a.list(ctx, t, prefix, "") {
			got = append(got, n[len(n)-len(name):])
		}
		if !slices.Equal(got, want) {
			t.Fatalf("after write %d the list shows %v, want %v", i, got, want)
		}
	}
}
