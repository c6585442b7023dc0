package connection

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/skew"
)

// sayInterval is how often a log has a sentence about a version: each answer of a server would be
// a reason.
const sayInterval = time.Minute

// IncompatibleError says that the server and this syncer are of versions that do not work together.
type IncompatibleError struct{ Message string }

// Error implements error.
func (e *IncompatibleError) Error() string { return e.Message }

// IsIncompatible says that err is, or wraps, an IncompatibleError.
func IsIncompatible(err error) bool {
	var incompatible *IncompatibleError
	return errors.As(err, &incompatible)
}

// errUnmet: no server has answered yet.
var errUnmet = errors.New("no server has answered yet")

// Handshake tells servers the version of this syncer with each request, and reads theirs from
// each answer. Behind a load balancer the next one may come from another server, so the last one
// counts:
//
//	the last answer                    reads above  writes above, and below
//	none yet                           are sent     are sent: nothing is known to write
//	of a server that works with us     are sent     are sent
//	of one that does not               are sent,    are refused here
//	                                   to hear of
//	                                   another one
//
// What a server answers that does not work with us is thrown away: nobody acts on it. An error
// without the header is no answer of a server: a proxy may have made it.
type Handshake struct {
	mine   skew.Side
	header string

	mu      sync.Mutex
	problem error
	saidAt  time.Time
}

// NewHandshake makes one for a syncer that is mine.
func NewHandshake(mine skew.Side) *Handshake {
	return &Handshake{mine: mine, header: mine.Header(), problem: errUnmet}
}

// Mine is what it says of this syncer.
func (h *Handshake) Mine() skew.Side { return h.mine }

// Ready says why no server works with this syncer; nil if the last one that answered does.
func (h *Handshake) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
}

// Wrap is a configuration of the server whose clients take part.
func (h *Handshake) Wrap(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return greeting{h, next} })
	return c
}

// Guard is a transport to the physical cluster, to which nothing is written for a server that
// does not work with this syncer.
func (h *Handshake) Guard(next http.RoundTripper) http.RoundTripper { return agreed{h, next} }

// refuses says that a request must not be sent.
func (h *Handshake) refuses(req *http.Request) error {
	if err := h.Ready(); IsWrite(req) && IsIncompatible(err) {
		return err
	}
	return nil
}

// hear reads the version of who answered.
func (h *Handshake) hear(req *http.Request, resp *http.Response) error {
	values := resp.Header.Values(skew.ServerHeader)
	if done := resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusSwitchingProtocols; len(values) == 0 && !done {
		return nil
	}
	server, err := skew.Read(values)
	message := ""
	if err != nil {
		message = "the server does not say its version as this syncer, " + h.mine.String() + ", reads it: in the header " + skew.ServerHeader + ", " + err.Error()
	} else {
		_, message = skew.Between(h.mine, server)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = nil
	if message == "" {
		return nil
	}
	h.problem = &IncompatibleError{message}
	if time.Since(h.saidAt) > sayInterval {
		h.saidAt = time.Now()
		klog.FromContext(req.Context()).Info("Not syncing: the server and this syncer are of versions that do not work together", "err", message)
	}
	return h.problem
}

// greeting is a transport to the server.
type greeting struct {
	handshake *Handshake
	next      http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t greeting) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.handshake.refuses(req); err != nil {
		CloseBody(req)
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set(skew.SyncerHeader, t.handshake.header)
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := t.handshake.hear(req, resp); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t greeting) WrappedRoundTripper() http.RoundTripper { return t.next }

// agreed is a transport to the physical cluster.
type agreed struct {
	handshake *Handshake
	next      http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t agreed) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.handshake.refuses(req); err != nil {
		CloseBody(req)
		return nil, err
	}
	return t.next.RoundTrip(req)
}
