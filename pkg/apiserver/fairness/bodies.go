package fairness

import (
	"context"
	"fmt"
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
