package storage

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// lists is a storage that notes of which versions it is asked, and has forgotten
// all of the past.
type lists struct {
	storage.Interface
	asked []string
}

func (l *lists) GetList(_ context.Context, _ string, o storage.ListOptions, _ runtime.Object) error {
	l.asked = append(l.asked, o.ResourceVersion+string(o.ResourceVersionMatch))
	if o.ResourceVersion != "" {
		return errors.New("compacted")
	}
	return nil
}

func TestAWatchCacheBeginsWithThePastOnceAndWithoutItIfItIsGone(t *testing.T) {
	t.Parallel()
	for revision, want := range map[uint64][]string{7: {"7Exact", "", ""}, 0: {"", ""}} {
		l := &lists{}
		b := &beginning{Interface: l, revision: revision}
		for range 2 {
			if err := b.GetList(t.Context(), "/pods", storage.ListOptions{}, nil); err != nil {
				t.Errorf("the list failed: %v", err)
			}
		}
		if !slices.Equal(l.asked, want) {
			t.Errorf("begun at %d, it asked for %q, want %q", revision, l.asked, want)
		}
	}
}
