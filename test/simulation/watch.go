package simulation

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (f *front) watch(c *call) answer {
	r := c.req
	match, err := f.selects(r)
	if err != nil {
		return failure(err)
	}
	log := f.store.Log(r.res.GroupResource())
	cursor, since := len(log), r.version()
	if since > 0 {
		cursor = after(log, since)
	}
	if since > f.store.Revision() && f.physical == nil {
		// As the views of syncers answer. A kube-apiserver says nothing, and drops
		// every change up to that revision.
		return failure(apierrors.NewResourceExpired("that resource version is from the future"))
	}
	if c.line.lacking[r.listed()] && c.line.short != r.res.Resource {
		// Its list came back short, and that was repaired before anybody watched.
		return failure(apierrors.NewResourceExpired("the list before this watch was short"))
	}
	s := &stream{
		front: f, line: c.line, res: r.res, req: r, sees: match, cursor: cursor, since: since,
		name: c.line.name + " " + r.String(), began: f.world.now(), more: make(chan struct{}, 1),
	}
	f.world.streams = append(f.world.streams, s)
	return answer{response: &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Body: s, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Summary": {fmt.Sprintf("watch at %d", cursor)}},
	}}
}

// pending says that there is something that the client has not heard.
func (s *stream) pending() bool {
	if s.scanned == s.front.store.Revision() {
		return false
	}
	log := s.front.store.Log(s.res.GroupResource())
	for s.cursor < len(log) {
		e := log[s.cursor]
		if e.Revision <= s.since {
			s.cursor++
			continue
		}
		if e.Old != nil && s.sees(e.Old) || e.New != nil && s.sees(e.New) {
			return true
		}
		s.cursor++
	}
	s.scanned = s.front.store.Revision()
	return false
}

// step sends the client one change.
func (s *stream) step() {
	gr := s.res.GroupResource()
	e := s.front.store.Log(gr)[s.cursor]
	s.cursor++
	s.front.heard[gr] = max(s.front.heard[gr], s.cursor)
	before, now := e.Old != nil && s.sees(e.Old), e.New != nil && s.sees(e.New)
	kind, obj := "MODIFIED", e.New
	switch {
	case !before && !now:
		return
	case !before:
		kind = "ADDED"
	case !now:
		kind, obj = "DELETED", e.Old.DeepCopyObject().(object)
		obj.SetResourceVersion(strconv.FormatInt(e.Revision, 10))
	}
	s.front.world.say("%s: %s %s", s.name, kind, e.Key.String()+" "+describe(e.New))
	body := s.front.world.encode(obj, s.res, s.req.metadata)
	s.push(append(append(fmt.Appendf(nil, `{"type":%q,"object":`, kind), body...), '}'))
}

// stream is the body of the answer to a watch.
type stream struct {
	front  *front
	line   *line
	res    *resource
	req    *request
	sees   func(object) bool
	cursor int
	// since is the revision from which on the client wants to hear.
	since int64
	// began is when the client began to hear.
	began time.Time
	// scanned is the revision up to which there is nothing to tell.
	scanned int64
	name    string
	mu      sync.Mutex
	buffer  bytes.Buffer
	ended   error
	more    chan struct{}
	stopped bool
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		if s.buffer.Len() > 0 {
			defer s.mu.Unlock()
			return s.buffer.Read(p)
		}
		ended := s.ended
		s.mu.Unlock()
		if ended != nil {
			return 0, ended
		}
		<-s.more
	}
}

// Close implements io.Closer: the client wants no more.
func (s *stream) Close() error {
	s.end(io.ErrClosedPipe)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return nil
}

// end makes the client see the end.
func (s *stream) end(err error) {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = err
	}
	s.mu.Unlock()
	s.nudge()
}

func (s *stream) nudge() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *stream) push(frame []byte) {
	s.mu.Lock()
	s.buffer.Write(frame)
	s.buffer.WriteByte('\n')
	s.mu.Unlock()
	s.nudge()
}

func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended != nil || s.stopped
}
