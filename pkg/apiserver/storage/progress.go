package storage

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// progressKey is written to make revisions advance; nobody reads or watches it. It
	// is outside of all prefixes of objects.
	progressKey = "atoll-progress"
	// standstill is for how long progress is asked for at one revision before it is made
	// to advance: etcd answers at once if it can, and watch caches ask every 100 ms.
	standstill = 250 * time.Millisecond
	// requestGap is after how long without a request those before are forgotten.
	requestGap = 2 * standstill
)

// progressing sees to it that etcd answers a request for progress. Etcd does so if all
// watches of a stream are up to date, and one that begins at the next revision is not:
// where resources share a stream, a watch cache that has just listed keeps all the others
// from learning that they are up to date, until anything is written. On a quiet server
// nothing is, and lists and watches that have to show all writes before them wait in vain.
type progressing struct {
	clientv3.Watcher
	kv clientv3.KV

	mu sync.Mutex
	// at is the revision at which progress was asked for since first, and last.
	at          int64
	first, last time.Time
}

// RequestProgress implements clientv3.Watcher.
func (p *progressing) RequestProgress(ctx context.Context) error {
	if now, err := p.kv.Get(ctx, progressKey, clientv3.WithCountOnly()); err == nil && p.standsStill(now.Header.Revision, time.Now()) {
		// If it fails there is no progress, and who asks comes again.
		_, _ = p.kv.Put(ctx, progressKey, "")
	}
	return p.Watcher.RequestProgress(ctx)
}

// standsStill says that progress has been asked for at one revision for a while.
func (p *progressing) standsStill(revision int64, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at != revision || now.Sub(p.last) > requestGap {
		p.at, p.first = revision, now
	}
	p.last = now
	return now.Sub(p.first) >= standstill
}
