package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/klog/v2"
)

const (
	// logBytes is how much large writes must have left in the log for it to be worth shortening.
	logBytes = 4 << 20
	// largeWrite is what makes the log large. Others take the place of each other.
	largeWrite = 16 << 10
	// logQuiet is how long after the last large write the log is shortened: while they go
	// on, the next ones would be in it.
	logQuiet = 30 * time.Second
	// logInterval is how often that is looked at, and tried again after a failure.
	logInterval = 10 * time.Second
	// logEntries are so many that etcd looks at its log once while they are appended:
	// it does so when it has applied a hundred more, etcdserver.memorySnapshotCount.
	logEntries = 102
)

// writes are the large ones since the log was shortened. Etcd keeps the last entries of its log in
// memory by their number alone, each with all that was written: who writes two hundred objects of a
// megabyte leaves as much behind, until others have written as often.
type writes struct {
	mu    sync.Mutex
	bytes int
	last  time.Time
}

// written is how many bytes of values a transaction writes, if it comes to that.
func written(q *pb.TxnRequest) (size int) {
	for _, op := range q.GetSuccess() {
		size += len(op.GetRequestPut().GetValue())
	}
	return size
}

func (w *writes) add(now time.Time, size int) {
	if size < largeWrite {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += size
	w.last = now
}

// due says that the log is worth shortening, and that nothing large is written at the moment.
func (w *writes) due(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes >= logBytes && now.Sub(w.last) >= logQuiet
}

// taken forgets what was written until a moment: that is not in the log any more.
func (w *writes) taken(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.After(until) {
		w.bytes = 0
	}
}

// keepShort shortens the log when it is worth it, until ctx ends.
func (s *Server) keepShort(ctx context.Context) {
	ticker := time.NewTicker(logInterval)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			if !s.local.writes.due(now) {
				continue
			}
			if err := s.shorten(ctx); err != nil {
				if ctx.Err() == nil {
					klog.FromContext(ctx).Error(err, "Shortening the log of etcd failed, it is tried again")
				}
				continue
			}
			s.local.writes.taken(now)
		case <-ctx.Done():
			return
		}
	}
}

// shorten has etcd forget what is in its log: by entries that change nothing, neither data nor
// their revision. To ask for alarms is one.
func (s *Server) shorten(ctx context.Context) error {
	for range logEntries {
		if err := s.appendNothing(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) appendNothing(ctx context.Context) error {
	if err := s.local.begin(); err != nil {
		return err
	}
	defer s.local.end()
	if _, err := s.etcd.Server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET}); err != nil {
		return fmt.Errorf("appending to the log: %w", err)
	}
	return nil
}
