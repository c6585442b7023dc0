package fairness

import (
	"container/list"
	"context"
	"net/http"
	"runtime"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// turnsPerCore is how many requests of one logical cluster are served at a time,
	// for each core. Seats are shared fairly, but seats do not share the processor:
	// hundreds of requests that have one leave nothing to the next.
	turnsPerCore = 4
	fewestTurns  = 8
	// longestLine is how many requests of one logical cluster wait for a turn; more
	// are refused (429).
	longestLine = 1000
)

// Turns bounds how many requests of one logical cluster are served at a time.
type Turns struct {
	most, longest int

	mu    sync.Mutex
	lines map[string]*line
}

// line is of those who share turns; it is there while it has any.
type line struct {
	taken   int
	waiting list.List // of chan struct{}, closed by who hands over his turn
}

// NewTurns makes turns for this machine.
func NewTurns() *Turns {
	return &Turns{most: max(fewestTurns, turnsPerCore*runtime.GOMAXPROCS(0)), longest: longestLine, lines: map[string]*line{}}
}

// take waits for a turn; false if ctx ends first or the line is too long.
func (t *Turns) take(ctx context.Context, who string) bool {
	t.mu.Lock()
	l := t.lines[who]
	if l == nil {
		l = &line{}
		t.lines[who] = l
	}
	if l.taken < t.most {
		l.taken++
		t.mu.Unlock()
		return true
	}
	if l.waiting.Len() >= t.longest {
		t.mu.Unlock()
		return false
	}
	mine := make(chan struct{})
	place := l.waiting.PushBack(mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-mine: // it came at the same moment
		return true
	default:
		l.waiting.Remove(place)
		return false
	}
}

// takeBack takes a turn without waiting, even if that makes one too many.
func (t *Turns) takeBack(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[who]
	if l == nil {
		l = &line{}
		t.lines[who] = l
	}
	l.taken++
}

// give ends a turn: the first who waits gets it.
func (t *Turns) give(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[who]
	first := l.waiting.Front()
	if first != nil && l.taken <= t.most {
		close(l.waiting.Remove(first).(chan struct{}))
		return
	}
	if l.taken--; l.taken == 0 {
		delete(t.lines, who)
	}
}

// turn is that of one request.
type turn struct {
	turns *Turns
	// alone says that the credentials are good in one logical cluster only, borrowed
	// that the user is not who he says.
	alone, borrowed bool

	mu   sync.Mutex
	who  string // not empty while the request has its turn
	away int
}

type turnKey struct{}

// With gives each request to next a turn to take, which Handle does. isBound says
// whether the credentials of a request are good in one logical cluster only; the
// authenticator verifies them later.
func (t *Turns) With(next http.Handler, isBound func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mine := &turn{turns: t, alone: isBound(req), borrowed: req.Header.Get(authenticationv1.ImpersonateUserHeader) != ""}
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), turnKey{}, mine)))
	})
}

// lineOf is with whom a request shares turns; false if it needs none.
//
//	admins, the server, syncers                        nobody: they need no turn
//	credentials of this logical cluster                all of the logical cluster
//	other credentials, impersonating                   all who impersonate there
//	other credentials (identity providers, anonymous)  the user, there
//
// Whoever may make credentials, or impersonate, cannot make himself turns with
// it; a stranger who floods a logical cluster does not take those of its users.
func lineOf(t *turn, c logicalcluster.Name, u user.Info) (string, bool) {
	if _, syncs := auth.SyncerOf(u); syncs {
		return "", false
	}
	for _, group := range u.GetGroups() {
		if group == user.SystemPrivilegedGroup {
			return "", false
		}
	}
	switch {
	case t.alone:
		return c.String(), true
	case t.borrowed:
		return c.String() + " impersonated", true
	default:
		return c.String() + " " + u.GetName(), true
	}
}

// begin takes the turn of the request of ctx; false says that it was refused.
func begin(ctx context.Context, u user.Info) (end func(), ok bool) {
	t, given := ctx.Value(turnKey{}).(*turn)
	c, scoped := scope.ClusterFrom(ctx)
	if !given || !scoped || u == nil {
		return func() {}, true
	}
	who, needed := lineOf(t, c, u)
	if !needed {
		return func() {}, true
	}
	if !t.turns.take(ctx, who) {
		return nil, false
	}
	t.mu.Lock()
	t.who = who
	t.mu.Unlock()
	return t.end, true
}

func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away == 0 {
		t.turns.give(t.who)
	}
	t.who = ""
}

// Away gives up the turn of the request of ctx while it waits for somebody else,
// such as a webhook, which may well ask the same logical cluster before it answers.
// The result takes the turn back.
func Away(ctx context.Context) (back func()) {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away++; t.away == 1 && t.who != "" {
		t.turns.give(t.who)
	}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.away--; t.away == 0 && t.who != "" {
			t.turns.takeBack(t.who)
		}
	})
}
