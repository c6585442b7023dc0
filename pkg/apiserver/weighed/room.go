package weighed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/semaphore"
)

// roomTimeout is how long somebody waits for others to give back room.
const roomTimeout = 20 * time.Second

// ErrBusy says that there was no room in time.
var ErrBusy = errors.New("the server is busy with as much of this as it does at a time")

// Room bounds what is done at a time, by weight: in all, and for one logical cluster, which
// gets a share.
type Room struct {
	all   *semaphore.Weighted
	share int64

	mu     sync.Mutex
	shares map[logicalcluster.Name]*shareOf
}

type shareOf struct {
	*semaphore.Weighted
	users int
}

// NewRoom makes room for all, and a share of it for each logical cluster.
func NewRoom(all, share int64) *Room {
	return &Room{all: semaphore.NewWeighted(all), share: share, shares: map[logicalcluster.Name]*shareOf{}}
}

// Take waits for room, and returns what gives it back. What is heavier than a share
// takes the share.
func (r *Room) Take(ctx context.Context, c logicalcluster.Name, weight int64) (func(), error) {
	weight = min(weight, r.share)
	r.mu.Lock()
	s := r.shares[c]
	if s == nil {
		s = &shareOf{Weighted: semaphore.NewWeighted(r.share)}
		r.shares[c] = s
	}
	s.users++
	r.mu.Unlock()
	leave := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(r.shares, c)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	if s.Acquire(ctx, weight) != nil {
		leave()
		return nil, ErrBusy
	}
	if r.all.Acquire(ctx, weight) != nil {
		s.Release(weight)
		leave()
		return nil, ErrBusy
	}
	return func() {
		r.all.Release(weight)
		s.Release(weight)
		leave()
	}, nil
}
