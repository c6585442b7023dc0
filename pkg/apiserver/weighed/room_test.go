package weighed

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestOneLogicalClusterCannotTakeTheRoomOfAll(t *testing.T) {
	t.Parallel()
	r := NewRoom(100, 40)
	first, err := r.Take(t.Context(), "a", 1000) // a share, whatever it weighs
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Take(ctx, "a", 1); !errors.Is(err, ErrBusy) {
		t.Errorf("more than a share: %v", err)
	}
	second, err := r.Take(t.Context(), "b", 40)
	if err != nil {
		t.Fatalf("the neighbour: %v", err)
	}
	first()
	third, err := r.Take(t.Context(), "a", 40)
	if err != nil {
		t.Fatalf("what was given back: %v", err)
	}
	second()
	third()
	if len(r.shares) != 0 {
		t.Errorf("%d shares are left", len(r.shares))
	}
}
