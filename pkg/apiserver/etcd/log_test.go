package etcd

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestTheLogIsShortenedOnceNothingLargeIsWritten(t *testing.T) {
	t.Parallel()
	var w writes
	at := time.Unix(0, 0)
	w.add(at, largeWrite-1)
	for range 100 {
		w.add(at, largeWrite-1)
	}
	if w.due(at.Add(time.Hour)) {
		t.Error("small writes are worth it")
	}
	w.add(at, logBytes)
	for after, want := range map[time.Duration]bool{0: false, logQuiet - 1: false, logQuiet: true} {
		if got := w.due(at.Add(after)); got != want {
			t.Errorf("%s after a large write: %v, want %v", after, got, want)
		}
	}
	// What came while it was shortened is still there.
	w.add(at.Add(logQuiet), largeWrite)
	if w.taken(at.Add(logQuiet - 1)); !w.due(at.Add(3 * logQuiet)) {
		t.Error("a write that came meanwhile is forgotten")
	}
	if w.taken(at.Add(3 * logQuiet)); w.due(at.Add(4 * logQuiet)) {
		t.Error("it is worth it again, without a write")
	}
}

// TestNothingLargeStaysInTheLog has no parallel: it looks at the memory of the process.
func TestNothingLargeStaysInTheLog(t *testing.T) {
	const objects, size = 40, 1 << 20
	const batch = 150 * time.Millisecond // the database commits after less
	s := start(t, t.TempDir())
	c := s.Client()
	before := heap()
	for i := range objects {
		value := string(bytes.Repeat([]byte{byte(i)}, size))
		txn := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision("large"), "<", 1<<40)).Then(clientv3.OpPut("large", value))
		if r, err := txn.Commit(); err != nil || !r.Succeeded {
			t.Fatalf("writing %d: %v, %v", i, r, err)
		}
		// The database has buffers of its own of what is written at once, which are not what is looked at.
		time.Sleep(batch)
	}
	if got := s.local.writes.bytes; got != objects*size {
		t.Errorf("%d bytes are known to be written, want %d", got, objects*size)
	}
	if _, err := c.Delete(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	revision := revisionOf(t, c)
	held := heap() - before
	if held < objects*size*3/4 {
		t.Fatalf("%d bytes are held of what was written, before the log is shortened: this test shows nothing", held)
	}
	if err := s.shorten(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := revisionOf(t, c); got != revision {
		t.Errorf("the revision is %d, it was %d: something was written", got, revision)
	}
	left := 0 // fewer writes than the log keeps by itself
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(batch) {
		if _, err := c.Put(t.Context(), "small", "a"); err != nil {
			t.Fatal(err)
		}
		if left = heap() - before; left <= objects*size/2 {
			return
		}
	}
	t.Errorf("%d bytes are left of %d that were written", left, objects*size)
}

func TestTheLogOfAMemberThatHasEndedIsLeft(t *testing.T) {
	s := start(t, t.TempDir())
	s.Stop()
	if err := s.shorten(t.Context()); err == nil {
		t.Error("something was appended to the log of a member that has ended")
	}
}

func TestWhatATransactionWritesIsCounted(t *testing.T) {
	t.Parallel()
	op := func(n int) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a"), Value: make([]byte, n)}}}
	}
	read := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a")}}}
	for _, c := range []struct {
		txn  *pb.TxnRequest
		want int
	}{
		{&pb.TxnRequest{}, 0},
		{&pb.TxnRequest{Success: []*pb.RequestOp{read}, Failure: []*pb.RequestOp{op(7)}}, 0},
		{&pb.TxnRequest{Success: []*pb.RequestOp{op(3), read, op(4)}}, 7},
	} {
		t.Run(fmt.Sprint(c.want), func(t *testing.T) {
			if got := written(c.txn); got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func revisionOf(t *testing.T, c *clientv3.Client) int64 {
	t.Helper()
	r, err := c.Get(t.Context(), "nothing")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}
