package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"
)

// callsEnd is how long Stop waits for calls of local clients: each of them ends by
// itself as long as the member works.
const callsEnd = 5 * time.Second

// readTimeout is how long a read may take: as long as etcd gives a write.
const readTimeout = 7 * time.Second

// local are the clients in this process, and what they call just now. A member that
// is reached by gRPC ends its connections before it closes the database; called
// directly, it has to know that nobody reads any more.
type local struct {
	mu      sync.Mutex
	stopped bool
	clients []*clientv3.Client
	calls   sync.WaitGroup
	writes  writes
}

// Client makes a client that calls the member directly: no socket, no encoding. What
// it is given is shared with the member and must not be changed. Its watches share one
// stream, with those of no other client. It ends with the member, or by its Close.
func (s *Server) Client() *clientv3.Client {
	c := v3client.New(s.etcd.Server) // for leases, maintenance and the cluster, which do not read the database
	c.KV = clientv3.NewKVFromKVClient(adapter.KvServerToKvClient(localKV{v3rpc.NewQuotaKVServer(s.etcd.Server), &s.local}), c)
	_ = c.Watcher.Close() // it has no streams yet
	c.Watcher = clientv3.NewWatchFromWatchClient(adapter.WatchServerToWatchClient(localWatch{v3rpc.NewWatchServer(s.etcd.Server), &s.local}), c)
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	s.local.clients = append(s.local.clients, c)
	return c
}

// begin is called before each call, end after it.
func (l *local) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return rpctypes.ErrGRPCStopped
	}
	l.calls.Add(1)
	return nil
}

func (l *local) end() { l.calls.Done() }

// stop refuses further calls, ends the watches, and waits for the calls that began.
func (l *local) stop() error {
	l.mu.Lock()
	l.stopped = true
	clients := l.clients
	l.clients = nil
	l.mu.Unlock()
	for _, c := range clients {
		_ = c.Close() // says no more than that it is closed
	}
	ended := make(chan struct{})
	go func() {
		l.calls.Wait()
		close(ended)
	}()
	timeout := time.NewTimer(callsEnd)
	defer timeout.Stop()
	select {
	case <-ended:
		return nil
	case <-timeout.C:
		return errors.New("calls of the database did not end in time")
	}
}

// localKV is the member's service of keys, as long as the member runs.
type localKV struct {
	pb.KVServer
	*local
}

func call[Q, A any](l *local, ctx context.Context, q Q, f func(context.Context, Q) (A, error)) (a A, err error) {
	if err := l.begin(); err != nil {
		return a, err
	}
	defer l.end()
	return f(ctx, q)
}

// Range waits for readTimeout at the most: while the database is written to a disk that
// does not answer, nobody can read it, and what waits for that heeds no context.
func (s localKV) Range(ctx context.Context, q *pb.RangeRequest) (*pb.RangeResponse, error) {
	return within(ctx, readTimeout, func() (*pb.RangeResponse, error) { return call(s.local, ctx, q, s.KVServer.Range) })
}

// within returns what f does, or that it did not in time: then f ends later.
func within[A any](ctx context.Context, timeout time.Duration, f func() (*A, error)) (*A, error) {
	type answer struct {
		a   *A
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		a, err := f()
		answered <- answer{a, err}
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case got := <-answered:
		return got.a, got.err
	case <-timer.C:
		return nil, rpctypes.ErrGRPCTimeout
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s localKV) RangeStream(q *pb.RangeRequest, to grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	return s.KVServer.RangeStream(q, to)
}

func (s localKV) Put(ctx context.Context, q *pb.PutRequest) (*pb.PutResponse, error) {
	s.writes.add(time.Now(), len(q.GetValue()))
	return call(s.local, ctx, q, s.KVServer.Put)
}

func (s localKV) DeleteRange(ctx context.Context, q *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return call(s.local, ctx, q, s.KVServer.DeleteRange)
}

func (s localKV) Txn(ctx context.Context, q *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.writes.add(time.Now(), written(q))
	return call(s.local, ctx, q, s.KVServer.Txn)
}

func (s localKV) Compact(ctx context.Context, q *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return call(s.local, ctx, q, s.KVServer.Compact)
}

// localWatch is the member's service of watches, as long as the member runs.
type localWatch struct {
	pb.WatchServer
	*local
}

func (s localWatch) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	e := &eager{BidiStreamingServer: stream, arrived: make(chan struct{}, 1)}
	go e.read() // ends with the stream, which ends when this returns
	return s.WatchServer.Watch(e)
}

// eager takes the requests of a stream as they come. A client of watches does not read
// while it sends, and the member does not read while it cannot send: with a connection
// between them what is under way is buffered, without one they would wait for each other
// when many watches begin and end at a time.
//
// What it holds is bounded by the watches that the client has.
type eager struct {
	grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]

	mu       sync.Mutex
	requests []*pb.WatchRequest
	err      error
	// arrived has an element if there may be something that was not received.
	arrived chan struct{}
}

func (e *eager) read() {
	for {
		r, err := e.BidiStreamingServer.Recv()
		e.mu.Lock()
		if err != nil {
			e.err = err
		} else {
			e.requests = append(e.requests, r)
		}
		e.mu.Unlock()
		select {
		case e.arrived <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Recv implements grpc.BidiStreamingServer.
func (e *eager) Recv() (*pb.WatchRequest, error) {
	for {
		e.mu.Lock()
		if len(e.requests) > 0 {
			r := e.requests[0]
			e.requests = e.requests[1:]
			e.mu.Unlock()
			return r, nil
		}
		err := e.err
		e.mu.Unlock()
		if err != nil {
			return nil, err
		}
		<-e.arrived // also by the end of the stream
	}
}
