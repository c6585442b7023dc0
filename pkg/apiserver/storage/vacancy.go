package storage

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// vacancyTimeout is how long etcd may take to say whether a resource has objects.
	vacancyTimeout = 5 * time.Second
	// vacancyRetry is when to ask again after etcd did not answer.
	vacancyRetry = time.Second
)

// vacancy knows from etcd that a resource has no objects: that there were none at some
// revision, and that nothing was written since. Any server may write the first one.
//
//	etcd does not answer     not known: as if there were objects, until it does
//	the count is 0           vacant since the revision of the answer
//	a count, an event        over, for as long as the process lives
//	the watch is lost        over: what happened since nobody knows
//
// It costs one goroutine and one watch of etcd.
type vacancy struct {
	client *clientv3.Client
	prefix string

	stop    context.CancelFunc
	stopped chan struct{}
	// known is closed when etcd has answered, or did not in time.
	known     chan struct{}
	knownOnce sync.Once

	mu sync.Mutex
	// since is the revision; zero says that there may be objects.
	since uint64
	// until is, when it is over, a revision at which there were none, and the last one
	// that is known.
	until uint64
	// waiting are called when it is over.
	waiting map[*func()]struct{}
}

func newVacancy(client *clientv3.Client, prefix string) *vacancy {
	v := &vacancy{client: client, prefix: prefix, stopped: make(chan struct{}), known: make(chan struct{}),
		waiting: map[*func()]struct{}{}}
	var ctx context.Context
	ctx, v.stop = context.WithCancel(context.Background())
	go v.run(ctx)
	return v
}

// close ends it, and with it the wait of everybody.
func (v *vacancy) close() {
	v.stop()
	<-v.stopped
	v.end(0)
}

// last returns a revision at which there were no objects, the last one that is known
// as long as they are waited for, and later that before the first; zero if none is.
func (v *vacancy) last() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.since, v.until)
}

// of returns since when the resource has no objects, or zero. The first call waits
// until that is known.
func (v *vacancy) of(ctx context.Context) uint64 {
	select {
	case <-v.known:
	case <-ctx.Done():
		return 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.since
}

// wait has f called, in a goroutine of its own, when there may be objects. It returns
// false if there are already: then it is not called.
func (v *vacancy) wait(f *func()) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since == 0 {
		return false
	}
	v.waiting[f] = struct{}{}
	return true
}

// forget takes back a wait; false says that the function is called, or was.
func (v *vacancy) forget(f *func()) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, waits := v.waiting[f]
	delete(v.waiting, f)
	return waits
}

func (v *vacancy) run(ctx context.Context) {
	defer close(v.stopped)
	defer v.know()
	timeout := time.AfterFunc(vacancyTimeout, v.know)
	defer timeout.Stop()
	for ctx.Err() == nil {
		if until, over := v.follow(ctx); over {
			v.end(until)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(vacancyRetry):
		}
	}
}

// follow returns when there may be objects, with what end wants; over is false if etcd
// did not answer.
func (v *vacancy) follow(ctx context.Context) (until uint64, over bool) {
	bounded, cancel := context.WithTimeout(ctx, vacancyTimeout)
	answer, err := v.client.Get(bounded, v.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	cancel()
	switch {
	case err != nil:
		return 0, false
	case answer.Count > 0:
		return 0, true
	}
	since := uint64(answer.Header.Revision)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	events := v.client.Watch(watching, v.prefix, clientv3.WithPrefix(), clientv3.WithRev(answer.Header.Revision+1))
	v.mu.Lock()
	v.since = since
	v.mu.Unlock()
	v.know()
	for e := range events {
		if len(e.Events) > 0 {
			return uint64(e.Events[0].Kv.ModRevision) - 1, true
		}
		if e.Err() != nil {
			break
		}
	}
	return since, ctx.Err() == nil
}

func (v *vacancy) know() { v.knownOnce.Do(func() { close(v.known) }) }

// end says that there may be objects, written after the revision until.
func (v *vacancy) end(until uint64) {
	v.mu.Lock()
	v.since = 0
	v.until = max(v.until, until)
	waiting := v.waiting
	v.waiting = nil
	v.mu.Unlock()
	for f := range waiting {
		go (*f)()
	}
}
