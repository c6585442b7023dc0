package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

var (
	// ErrNotMeant: who answers is not, or not yet, known to be the cluster that is
	// meant. The Ready condition says more.
	ErrNotMeant = errors.New("the physical cluster is not known to be the one that is meant")
	// ErrLost: it has none of our namespaces any more.
	ErrLost = errors.New("the physical cluster has none of our namespaces any more")
)

// maxUID bounds what is taken for a UID.
const maxUID = 128

// Gate knows which cluster is meant, as its reporter decides, and who answers on
// which connection.
type Gate struct {
	// probe asks the physical cluster without the gate, over the same connections.
	probe kubernetes.Interface
	// idle ends connections that nothing uses.
	idle func()

	mu sync.Mutex
	// alarm is called when a request met what nobody expected.
	alarm        func()
	meant        types.UID // empty: no cluster
	controlPlane string
	// populated says that namespaces of ours have been seen there.
	populated bool
	// expected counts the namespaces that should be there; nil as long as that is
	// not known.
	expected func() int
	// other is who else was met since Noticed was called, lost that our namespaces
	// were missed.
	other types.UID
	lost  bool

	// known says that no connection was made since one was identified.
	known       atomic.Bool
	identifying RequestLock
	// unknown means connections that cannot be distinguished.
	unknown connection
	checks  checks
	// refusal is how a check was refused, and refused when: a check reads and writes them.
	refusal error
	refused time.Time
}

// NewGate makes a gate that is closed; probe asks the physical cluster without it, over
// the same connections, and idle ends those that nothing uses.
func NewGate(probe kubernetes.Interface, idle func()) *Gate {
	return &Gate{probe: probe, idle: idle}
}

// OnAlarm has f called when a request met another cluster, or one that was emptied.
func (g *Gate) OnAlarm(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alarm = f
}

// Fresh has the next request make a connection, unless others are under way.
func (g *Gate) Fresh() { g.idle() }

// Admit opens the gate for one cluster, and closes it for all with an empty uid.
// populated says whether namespaces of ours have been seen there.
func (g *Gate) Admit(uid types.UID, controlPlane string, populated bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.meant, g.controlPlane, g.populated = uid, controlPlane, populated
}

// Expect says how many namespaces should be there; nil is not known any more.
func (g *Gate) Expect(count func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expected = count
}

// Expects is how many namespaces should be there, if any have been there before.
func (g *Gate) Expects() int {
	g.mu.Lock()
	populated := g.populated
	g.mu.Unlock()
	if !populated {
		return 0
	}
	return g.Count()
}

// Count is how many namespaces should be there, as far as it is known.
func (g *Gate) Count() int {
	g.mu.Lock()
	count := g.expected
	g.mu.Unlock()
	if count == nil {
		return 0
	}
	return count()
}

// Noticed returns, once, what requests met since it was last called.
func (g *Gate) Noticed() (other types.UID, lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	other, lost = g.other, g.lost
	g.other, g.lost = "", false
	return other, lost
}

func (g *Gate) passes(c *connection) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return c != nil && g.meant != "" && c.who() == g.meant
}

// ready sees to it that a request is likely to meet a connection that is known.
func (g *Gate) ready(ctx context.Context) error {
	if g.Admitted() == "" {
		return ErrNotMeant
	}
	if g.known.Load() {
		return nil
	}
	return g.identify(ctx, g.known.Load)
}

// identify asks who answers on a connection that is not known, and on a new one
// whether our namespaces are there; unless another request has just done so.
func (g *Gate) identify(ctx context.Context, done func() bool) error {
	unlock, err := g.identifying.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if done() {
		return nil
	}
	uid, c, err := g.Ask(ctx)
	if err != nil {
		return err
	}
	if err := g.recognize(uid); err != nil {
		return err
	}
	if c.who() != uid && g.Expects() > 0 {
		there, err := g.Namespaces(ctx, g.ControlPlane())
		if err != nil {
			return err
		}
		if there == syncer.PresenceNone {
			g.Notice("", true)
			return ErrLost
		}
	}
	c.uid.Store(&uid)
	g.known.Store(true)
	return nil
}

// recognize returns an error unless the cluster with the UID is the one that is meant.
func (g *Gate) recognize(uid types.UID) error {
	switch g.Admitted() {
	case "":
		return ErrNotMeant
	case uid:
		return nil
	}
	g.Notice(uid, false)
	return fmt.Errorf("%w: its namespace kube-system has UID %s", ErrNotMeant, uid)
}

// ControlPlane is the id of the control plane whose namespaces count.
func (g *Gate) ControlPlane() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.controlPlane
}

// Admitted is for whom the gate is open; empty for nobody.
func (g *Gate) Admitted() types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.meant
}

// Notice keeps what a request met, for Noticed.
func (g *Gate) Notice(other types.UID, lost bool) {
	g.mu.Lock()
	if other != "" {
		g.other = other
	}
	g.lost = g.lost || lost
	alarm := g.alarm
	g.mu.Unlock()
	if alarm != nil {
		alarm()
	}
}

// Ask reads who answers, and on which connection. One that answered otherwise before
// is not known any more.
func (g *Gate) Ask(ctx context.Context) (types.UID, *connection, error) {
	ctx, cancel := context.WithTimeout(ctx, QuestionTimeout)
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

// Namespaces asks whether namespaces of a control plane are there.
func (g *Gate) Namespaces(ctx context.Context, controlPlane string) (syncer.Presence, error) {
	ctx, cancel := context.WithTimeout(ctx, QuestionTimeout)
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
func (g *Gate) trace(used *atomic.Pointer[connection]) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.LocalAddr().(*connection); ok {
			used.Store(c)
			return
		}
		used.Store(&g.unknown)
	}}
}

// refusalDelay is how long a refusal to say who the physical cluster is answers for all who come: each of thousands of
// objects would ask for itself.
const refusalDelay = time.Second

// Confirm asks anew who the physical cluster is: for what cannot be taken back, such
// as that a copy is gone. It returns an error unless it is the one that is meant.
func (g *Gate) Confirm(ctx context.Context) error {
	return g.checks.share(ctx, func() error {
		if g.refusal != nil && time.Since(g.refused) < refusalDelay {
			return g.refusal
		}
		uid, _, err := g.Ask(context.WithoutCancel(ctx))
		if g.refusal = nil; err != nil {
			if !syncer.IsSilence(err) {
				g.refusal, g.refused = err, time.Now()
			}
			return err
		}
		return g.recognize(uid)
	})
}
