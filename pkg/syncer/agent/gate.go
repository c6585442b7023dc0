package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

var (
	// errNotMeant: who answers is not, or not yet, known to be the cluster that is
	// meant. The Ready condition says more.
	errNotMeant = errors.New("the physical cluster is not known to be the one that is meant")
	// errLost: it has none of our namespaces any more.
	errLost = errors.New("the physical cluster has none of our namespaces any more")
)

// maxUID bounds what is taken for a UID.
const maxUID = 128

// gate knows which cluster is meant, as the reporter decides, and who answers on
// which connection.
type gate struct {
	// probe asks the physical cluster without the gate, over the same connections.
	probe kubernetes.Interface
	// fresh ends connections that nothing uses, so that the next request makes one.
	fresh func()
	// alarm wakes the reporter.
	alarm func()

	mu           sync.Mutex
	meant        types.UID // empty: no cluster
	controlPlane string
	// populated says that namespaces of ours have been seen there.
	populated bool
	// expected counts the namespaces that should be there; nil as long as that is
	// not known.
	expected func() int
	// other is who else was met since the reporter asked, lost that our namespaces
	// were missed.
	other types.UID
	lost  bool

	// known says that no connection was made since one was identified.
	known       atomic.Bool
	identifying requestLock
	// unknown means connections that cannot be distinguished.
	unknown connection
	checks  checks
}

// admit opens the gate for one cluster, and closes it for all with an empty uid.
// populated says whether namespaces of ours have been seen there.
func (g *gate) admit(uid types.UID, controlPlane string, populated bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.meant, g.controlPlane, g.populated = uid, controlPlane, populated
}

// expect says how many namespaces should be there; nil is not known any more.
func (g *gate) expect(count func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expected = count
}

// expects is how many namespaces should be there, if any have been there before.
func (g *gate) expects() int {
	g.mu.Lock()
	populated := g.populated
	g.mu.Unlock()
	if !populated {
		return 0
	}
	return g.count()
}

// count is how many namespaces should be there, as far as it is known.
func (g *gate) count() int {
	g.mu.Lock()
	count := g.expected
	g.mu.Unlock()
	if count == nil {
		return 0
	}
	return count()
}

// noticed returns, once, what requests met since it was last called.
func (g *gate) noticed() (other types.UID, lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	other, lost = g.other, g.lost
	g.other, g.lost = "", false
	return other, lost
}

func (g *gate) passes(c *connection) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return c != nil && g.meant != "" && c.who() == g.meant
}

// ready sees to it that a request is likely to meet a connection that is known.
func (g *gate) ready(ctx context.Context) error {
	if g.admitted() == "" {
		return errNotMeant
	}
	if g.known.Load() {
		return nil
	}
	return g.identify(ctx, g.known.Load)
}

// identify asks who answers on a connection that is not known, and on a new one
// whether our namespaces are there; unless another request has just done so.
func (g *gate) identify(ctx context.Context, done func() bool) error {
	unlock, err := g.identifying.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if done() {
		return nil
	}
	uid, c, err := g.ask(ctx)
	if err != nil {
		return err
	}
	if err := g.recognize(uid); err != nil {
		return err
	}
	if c.who() != uid && g.expects() > 0 {
		there, err := g.namespaces(ctx, g.controlPlaneID())
		if err != nil {
			return err
		}
		if there == syncer.PresenceNone {
			g.notice("", true)
			return errLost
		}
	}
	c.uid.Store(&uid)
	g.known.Store(true)
	return nil
}

// recognize returns an error unless the cluster with the UID is the one that is meant.
func (g *gate) recognize(uid types.UID) error {
	switch g.admitted() {
	case "":
		return errNotMeant
	case uid:
		return nil
	}
	g.notice(uid, false)
	return fmt.Errorf("%w: its namespace kube-system has UID %s", errNotMeant, uid)
}

func (g *gate) controlPlaneID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.controlPlane
}

func (g *gate) admitted() types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.meant
}

func (g *gate) notice(other types.UID, lost bool) {
	g.mu.Lock()
	if other != "" {
		g.other = other
	}
	g.lost = g.lost || lost
	g.mu.Unlock()
	g.alarm()
}

// ask reads who answers, and on which connection. One that answered otherwise before
// is not known any more.
func (g *gate) ask(ctx context.Context) (types.UID, *connection, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	var used atomic.Pointer[connection]
	used.Store(&g.unknown)
	namespace, err := g.probe.CoreV1().Namespaces().Get(httptrace.WithClientTrace(ctx, g.trace(&used)), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", nil, err
	}
	uid, c := namespace.UID, used.Load()
	if uid == "" || len(uid) > maxUID {
		return "", nil, fmt.Errorf("the namespace kube-system of the physical cluster has a UID of %d characters", len(uid))
	}
	if c.who() != "" && c.who() != uid {
		c.uid.Store(nil)
	}
	return uid, c, nil
}

// namespaces asks whether namespaces of a control plane are there.
func (g *gate) namespaces(ctx context.Context, controlPlane string) (syncer.Presence, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	selector := placementv1alpha1.ManagedByLabel + "=" + controlPlane
	list, err := g.probe.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1})
	switch {
	case err != nil:
		return syncer.PresenceUnknown, fmt.Errorf("looking for our namespaces: %w", err)
	case len(list.Items) == 0:
		return syncer.PresenceNone, nil
	}
	return syncer.PresenceSome, nil
}

// trace finds out which connection a request goes over; the last one counts.
func (g *gate) trace(used *atomic.Pointer[connection]) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.LocalAddr().(*connection); ok {
			used.Store(c)
			return
		}
		used.Store(&g.unknown)
	}}
}

// confirm asks anew who the physical cluster is: for what cannot be taken back, such
// as that a copy is gone. It returns an error unless it is the one that is meant.
func (g *gate) confirm(ctx context.Context) error {
	return g.checks.share(ctx, func() error {
		uid, _, err := g.ask(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		return g.recognize(uid)
	})
}

// checks are shared by those who wait: what began after somebody came answers for
// him, too.
type checks struct {
	steps   atomic.Uint64
	running requestLock
	began   uint64
	err     error
}

func (c *checks) share(ctx context.Context, check func() error) error {
	came := c.steps.Add(1)
	unlock, err := c.running.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if c.began > came {
		return c.err
	}
	c.began = c.steps.Add(1)
	c.err = check()
	return c.err
}

// requestLock is held while a server is asked. Other than a sync.Mutex, it may be
// waited for while a simulation stands still.
type requestLock struct {
	once sync.Once
	held chan struct{}
}

// lock waits for the lock, or for the end of ctx.
func (l *requestLock) lock(ctx context.Context) (unlock func(), err error) {
	l.once.Do(func() { l.held = make(chan struct{}, 1) })
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
