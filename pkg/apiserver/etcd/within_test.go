package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func TestAReadIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	stuck := func() (*int, error) { <-release; return nil, nil }
	if _, err := within(t.Context(), time.Millisecond, stuck); !errors.Is(err, rpctypes.ErrGRPCTimeout) {
		t.Errorf("what does not end: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := within(gone, time.Hour, stuck); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
	one, own := 1, errors.New("own")
	if got, err := within(t.Context(), time.Hour, func() (*int, error) { return &one, own }); got != &one || !errors.Is(err, own) {
		t.Errorf("what ends: %v, %v", got, err)
	}
}
