package fairness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// maxAhead is how much of a body is read before its request takes anything: one byte more
	// than upstream takes, which then says so.
	maxAhead = 3<<20 + 1
	// chunk is in what parts a body is kept; each is let go when it was read.
	chunk = 32 << 10
	// unfinishedTimeout is how long what is left of a body may hold up the answer.
	unfinishedTimeout = time.Second
)

// bodyBounds say how many bodies arrive at a time, and how much of them is held.
type bodyBounds struct {
	// ofUser, ofOwner and ofAll are how many arrive at a time.
	ofUser, ofOwner, ofAll int
	// Bodies of more than small bytes need room, of which there is so much for all and for an owner.
	small, room, share int64
	// A body arrives within grace, and a second more for each pace bytes of it; while others wait for
	// the room that it has, within pressedGrace and by pressedPace.
	grace, pressedGrace time.Duration
	pace, pressedPace   int64
}

var defaultBodyBounds = bodyBounds{
	ofUser: 64, ofOwner: 256, ofAll: 2048,
	small: costlyBody, room: 128 << 20, share: 32 << 20,
	grace: 10 * time.Second, pace: 32 << 10,
	pressedGrace: time.Second, pressedPace: 512 << 10,
}

// sender is on whose account a body is read.
type sender struct{ owner, user string }

// senderOf says on whose account a body is read; false if it is nobody's.
//
//	admins, the server                      nobody: as their requests need no place
//	syncers                                 their own
//	credentials of this logical cluster     the logical cluster, and in it the user
//	other credentials, impersonating        all who impersonate there
//	other credentials                       the user, wherever he asks: names of logical clusters
//	                                        cost nothing, and he may be no member of this one
//
// Whoever may make credentials cannot make himself owners with it; nobody from elsewhere takes what
// the users of a logical cluster have.
func senderOf(bound, borrowed bool, c logicalcluster.Name, u user.Info) (sender, bool) {
	if name, syncs := auth.SyncerOf(u); syncs {
		return sender{"syncer " + name, ""}, true
	}
	if _, needed := queueOf(bound, borrowed, c, u); !needed {
		return sender{}, false
	}
	switch {
	case bound:
		return sender{"of " + c.String(), u.GetName()}, true
	case borrowed:
		return sender{"in " + c.String(), ""}, true
	default:
		return sender{"user " + u.GetName(), ""}, true
	}
}

// bodies are those that are read before their requests take a slot, and a place of priority and
// fairness: nobody holds one by sending slowly.
type bodies struct {
	bodyBounds
	clock clock.WithTickerAndDelayedExecution
	room  *weighed.Room

	mu       sync.Mutex
	arriving []*arrival // the one that began first is the first
	// held is how many bytes of the room each owner has.
	held map[string]int64
	all  int64
}

func newBodies(b bodyBounds, c clock.WithTickerAndDelayedExecution) *bodies {
	return &bodies{bodyBounds: b, clock: c, room: weighed.NewRoom(b.room, b.share), held: map[string]int64{}}
}

// arrival is a body that arrives.
type arrival struct {
	sender
	began time.Time
	read  int64
	// roomy says that it has room.
	roomy bool
	// why it was cut; nil if it was not.
	why *apierrors.StatusError
	cut func()
}

// late says that a body has not kept a pace.
func (a *arrival) late(now time.Time, grace time.Duration, pace int64) bool {
	return now.Sub(a.began) > grace+time.Duration(a.read/pace)*time.Second
}

// enter adds a body to those that arrive. At a limit somebody gives way to it, with an answer.
func (b *bodies) enter(a *arrival) *apierrors.StatusError {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		i, full := b.victim(a)
		if !full {
			b.arriving = append(b.arriving, a)
			return nil
		}
		if i < 0 {
			return tooManyBodies("many others arrive")
		}
		b.end(i, tooManyBodies("many others arrive, and it was slow"))
	}
}

// victim is which body gives way to a new one, by its place; negative if that is the new one.
//
//	those of its user are as many as there may be     the first of these
//	those of its owner are                            the first of the user who has the most
//	all are                                           the first of the user who has the most, of
//	                                                  the owner who has the most
//
// Who has as many as the new one's user with it has no more than him: then it is the first of his, and
// only if that has had pressedGrace to arrive, else the new one.
func (b *bodies) victim(a *arrival) (place int, full bool) {
	owners, users := map[string]int{a.owner: 1}, map[sender]int{a.sender: 1}
	for _, other := range b.arriving {
		owners[other.owner]++
		users[other.sender]++
	}
	from := a.sender
	switch {
	case users[a.sender] > b.ofUser:
	case owners[a.owner] > b.ofOwner:
		from = mostOf(users, from, func(s sender) bool { return s.owner == a.owner })
	case len(b.arriving) >= b.ofAll:
		owner := mostOf(owners, a.owner, func(string) bool { return true })
		if owner != a.owner {
			from = sender{}
		}
		from = mostOf(users, from, func(s sender) bool { return s.owner == owner })
	default:
		return 0, false
	}
	for i, other := range b.arriving {
		if other.sender == from {
			if from == a.sender && b.clock.Since(other.began) <= b.pressedGrace {
				return -1, true
			}
			return i, true
		}
	}
	return -1, true
}

// mostOf is the key with the largest number of those that match; own if none has more.
func mostOf[K comparable](numbers map[K]int, own K, match func(K) bool) K {
	most := own
	for key, n := range numbers {
		if match(key) && n > numbers[most] {
			most = key
		}
	}
	return most
}

// end cuts the body at a place, with mu held.
func (b *bodies) end(i int, why *apierrors.StatusError) {
	a := b.arriving[i]
	b.arriving = append(b.arriving[:i], b.arriving[i+1:]...)
	a.why = why
	a.cut()
}

// leave takes a body from those that arrive, and says why it was cut if it was.
func (b *bodies) leave(a *arrival) *apierrors.StatusError {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.arriving {
		if other == a {
			b.arriving = append(b.arriving[:i], b.arriving[i+1:]...)
			break
		}
	}
	return a.why
}

// progress counts what was read of a body, and says how long it has for the next part.
func (b *bodies) progress(a *arrival, n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.read += int64(n)
	return a.began.Add(b.grace + time.Duration(a.read/b.pace)*time.Second).Sub(b.clock.Now())
}

// timeout cuts a body that has not kept the pace.
func (b *bodies) timeout(a *arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.arriving {
		if other == a && a.late(b.clock.Now(), b.grace, b.pace) {
			b.end(i, tooSlow(a.read, b.clock.Since(a.began)))
			return
		}
	}
}

// take waits for room for so many bytes of a body, which is not slow meanwhile.
func (b *bodies) take(ctx context.Context, a *arrival, weight int64) (give func(), err error) {
	weight = min(weight, b.share)
	began, waited, done := b.clock.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := b.clock.NewTicker(b.pressedGrace / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C():
				b.press(a.owner, weight)
			case <-waited:
				return
			}
		}
	}()
	leave, err := b.room.Take(ctx, logicalcluster.Name(a.owner), weight)
	close(waited)
	<-done
	b.mu.Lock()
	defer b.mu.Unlock()
	a.began = a.began.Add(b.clock.Since(began))
	if err != nil {
		return nil, err //nolint:wrapcheck // ours
	}
	a.roomy = true
	b.held[a.owner] += weight
	b.all += weight
	return sync.OnceFunc(func() {
		b.mu.Lock()
		b.all -= weight
		if b.held[a.owner] -= weight; b.held[a.owner] <= 0 {
			delete(b.held, a.owner)
		}
		b.mu.Unlock()
		leave()
	}), nil
}

// press cuts slow bodies for somebody who waits for room.
//
//	what is used up      whose slow bodies are cut
//	the owner's share    the owner's
//	the room of all      those of owners who have more than an equal part of it
func (b *bodies) press(owner string, weight int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.held[owner]+weight > b.share
	equal := b.bodyBounds.room / int64(max(1, len(b.held)))
	now := b.clock.Now()
	for i := len(b.arriving) - 1; i >= 0; i-- {
		a := b.arriving[i]
		if !a.roomy || !a.late(now, b.pressedGrace, b.pressedPace) {
			continue
		}
		if own && a.owner == owner || !own && b.held[a.owner] >= equal {
			b.end(i, tooManyBodies("others wait for the memory that it takes, and it was slow"))
		}
	}
}

func tooManyBodies(why string) *apierrors.StatusError {
	return apierrors.NewTooManyRequests("the body of the request was not read: "+why+": try again", 1)
}

func tooSlow(read int64, took time.Duration) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonTimeout, Code: http.StatusRequestTimeout,
		Message: fmt.Sprintf("the body of the request came too slowly: %d bytes in %s", read, took.Round(time.Millisecond)),
	}}
}

// arrive reads the body of the request of u before it takes anything. It returns a context in which
// the request may wait as long as it could have before, and false if the request is refused.
func (t *slot) arrive(ctx context.Context, u user.Info) (renewed context.Context, done func(), ok bool) {
	c, scoped := scope.ClusterFrom(ctx)
	if t.body == nil || !scoped || u == nil {
		return ctx, func() {}, true
	}
	from, counted := senderOf(auth.IsBound(ctx), t.borrowed, c, u)
	if !counted {
		return ctx, func() {}, true
	}
	t.entered()
	bodies := t.slots.bodies
	began := bodies.clock.Now()
	if refusal := t.readAhead(from); refusal != nil {
		t.mu.Lock()
		t.refusal = refusal
		t.mu.Unlock()
		return ctx, func() {}, false
	}
	took := bodies.clock.Since(began)
	deadline, bounded := ctx.Deadline()
	if !bounded || took < bodies.pressedGrace {
		return ctx, t.body.drop, true
	}
	renewed, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(took))
	stop := context.AfterFunc(t.body.ctx, cancel)
	return renewed, func() {
		stop()
		cancel()
		t.body.drop()
	}, true
}

// readAhead reads the body of the request. An error says that it was not read; what else ends it is
// found by who reads it.
func (t *slot) readAhead(from sender) *apierrors.StatusError {
	b, bodies := t.body, t.slots.bodies
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	a := &arrival{sender: from, began: bodies.clock.Now()}
	a.cut = func() {
		cancel()
		t.abort()
	}
	if refusal := bodies.enter(a); refusal != nil {
		t.abort()
		return refusal
	}
	slow := bodies.clock.AfterFunc(bodies.grace, func() { bodies.timeout(a) })
	defer slow.Stop()
	err := b.fill(func(n int) error {
		left := bodies.progress(a, n)
		if length := max(b.length, a.read); length > bodies.small && b.give == nil {
			slow.Stop()
			if b.length < 0 {
				length = maxAhead
			}
			give, err := bodies.take(ctx, a, min(length, maxAhead))
			if err != nil {
				return err
			}
			b.give, left = give, bodies.progress(a, 0)
		}
		slow.Reset(max(left, 0) + time.Millisecond)
		return nil
	})
	if cut := bodies.leave(a); cut != nil {
		b.drop()
		return cut
	}
	if errors.Is(err, weighed.ErrBusy) {
		b.drop()
		t.abort()
		return tooManyBodies("others have the memory that large ones take")
	}
	return nil
}

// abort ends reading what is left of the body, whoever reads it.
func (t *slot) abort() {
	t.connection.Lock()
	defer t.connection.Unlock()
	if t.aborted = true; t.control != nil { // else the answer was given
		_ = t.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// body is that of a request. A long one makes the request expensive when it is decoded. Whoever has
// a slot reads of it what was read ahead, nothing from the network.
type body struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // that of the request
	slot   *slot
	length int64 // as the request says; negative if it does not
	read   int64 // by who decodes it
	give   func()

	mu    sync.Mutex
	ahead bool     // it was read ahead
	parts [][]byte // what was, and nobody has read yet
	ended error    // how it ended; nil if it did not
	gone  bool     // what was read ahead was let go
}

// fill reads the body until it ends or maxAhead bytes are there. Before each part more is called with
// the length of the one before; an error of it ends that.
func (b *body) fill(more func(n int) error) error {
	var part []byte // the last of parts
	held, n := int64(0), 0
	for held < maxAhead {
		if err := more(n); err != nil {
			return err
		}
		if len(part) == cap(part) {
			size := min(chunk, maxAhead-held)
			if b.length >= held {
				size = min(size, b.length-held+1)
			}
			part = make([]byte, 0, size)
		}
		var err error
		n, err = b.ReadCloser.Read(part[len(part):cap(part)])
		held += int64(n)
		b.mu.Lock()
		if b.ahead = true; n > 0 && len(part) > 0 {
			b.parts = b.parts[:len(b.parts)-1]
		}
		if part = part[:len(part)+n]; n > 0 {
			b.parts = append(b.parts, part)
		}
		b.ended = err
		b.mu.Unlock()
		if err != nil {
			return nil
		}
	}
	return nil
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, from, err := b.next(p)
	switch {
	case !from && b.finished():
		return 0, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxAhead-1))
	case !from:
		n, err = b.ReadCloser.Read(p)
		b.mu.Lock()
		b.ended = err
		b.mu.Unlock()
	}
	if b.read += int64(n); errors.Is(err, io.EOF) && b.read > costlyBody {
		if busy := Expensive(b.ctx); busy != nil {
			return n, busy
		}
	}
	return n, err //nolint:wrapcheck // io.EOF is compared
}

// next reads what was read ahead, and lets it go; false if all of that was read, and the body goes on.
func (b *body) next(p []byte) (n int, from bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.parts) > 0 {
		n = copy(p, b.parts[0])
		if b.parts[0] = b.parts[0][n:]; len(b.parts[0]) == 0 {
			b.parts = b.parts[1:]
		}
		if len(b.parts) > 0 {
			return n, true, nil
		}
		if b.give != nil {
			b.give()
		}
		return n, true, b.ended
	}
	if b.gone {
		return 0, true, io.ErrUnexpectedEOF
	}
	return 0, b.ended != nil, b.ended
}

// drop lets go what was read ahead.
func (b *body) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.parts) > 0 {
		b.parts, b.gone = nil, true
	}
	if b.give != nil {
		b.give()
	}
}

// unfinished says that there may be more of the body.
func (b *body) unfinished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended == nil
}

// finished says that the body was read ahead, and its request is with nobody else, who would read on.
func (b *body) finished() bool {
	b.mu.Lock()
	ahead := b.ahead
	b.mu.Unlock()
	return ahead && !b.slot.elsewhere()
}

// elsewhere says that the request waits for somebody else.
func (t *slot) elsewhere() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.suspended > 0
}

// uncut is ctx, which HTTP/1 ends when reading is, but for the end that abort made: who was cut is answered.
func (t *slot) uncut(ctx context.Context) context.Context {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t.connection.Lock()
		defer t.connection.Unlock()
		if !t.aborted {
			cancel()
		}
	})
	t.left = func() {
		stop()
		cancel()
	}
	return out
}

// answers begins the answer. A body that goes on holds it up for a moment only: HTTP/1 reads on for some
// time before it answers.
func (t *slot) answers() {
	if t.body == nil || !t.body.unfinished() || t.elsewhere() {
		return
	}
	t.connection.Lock()
	defer t.connection.Unlock()
	if t.control != nil && t.unfinished == nil {
		t.unfinished = t.slots.bodies.clock.AfterFunc(unfinishedTimeout, t.abort)
	}
}

// answered ends what is done with the connection, which gets its own deadlines for the next request.
func (t *slot) answered() {
	t.connection.Lock()
	defer t.connection.Unlock()
	if t.control != nil && t.body != nil && !t.aborted && t.body.unfinished() {
		_ = t.control.SetReadDeadline(t.slots.bodies.clock.Now().Add(unfinishedTimeout))
	}
	if t.control = nil; t.unfinished != nil {
		t.unfinished.Stop()
	}
	if t.left != nil {
		t.left()
	}
}
