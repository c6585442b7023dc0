package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

const (
	// inFlightLimit is how many requests a tenant may have in flight, crowdWaits how many more
	// wait at a server, and crowdTries how many it tries to have beside those in flight: so many on
	// each of some connections.
	inFlightLimit    = 2
	crowdWaits       = 1000
	crowdConnections = 12
	crowdTries       = crowdConnections * 95 // a connection may have a hundred
	// unreadObjects of hoardBytes are more than what is under way to somebody who does not read.
	unreadObjects = 40
)

var crowd = Attack{
	Name: "a tenant asks more at a time than its limit, which is named to those that find no place to wait, and a neighbour is served",
	Real: true, // of a thousand requests that wait
	Fence: func(ctx context.Context, w *World) error {
		served, refused, err := w.crowd(ctx, inFlightLimit, crowdTries-crowdWaits)
		if err == nil && served != crowdWaits {
			err = fmt.Errorf("%d were served and %d refused", served, refused)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error {
		served, refused, err := w.crowd(ctx, tenancyv1alpha1.Unlimited, 0)
		if err == nil && served != crowdTries {
			err = fmt.Errorf("%d were served and %d refused", served, refused)
		}
		return err
	},
}

// crowd has a tenant with a limit not read the answers of requests as many as that, and ask more meanwhile. It
// returns what became of these when the first ones are over, and fails if one that was refused was not refused
// by the limit, if fewer are before than there should be, or if a neighbour is not served before.
func (w *World) crowd(ctx context.Context, limit int64, refusedBefore int32) (served, refused int32, err error) {
	neighbour, err := w.cluster(ctx)
	if err != nil {
		return 0, 0, err
	}
	other, err := w.tenant(neighbour)
	if err != nil {
		return 0, 0, err
	}
	ctx, err = w.cluster(ctx, func(c *tenancyv1alpha1.LogicalCluster) { c.Spec.Limits.RequestsInFlight = limit })
	if err != nil {
		return 0, 0, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return 0, 0, err
	}
	for i := range unreadObjects {
		if err := who.keep(ctx, fmt.Sprint("unread-", i)); err != nil {
			return 0, 0, fmt.Errorf("object %d: %w", i, err)
		}
	}
	var crowd []*http.Client
	for range crowdConnections {
		one, err := rest.HTTPClientFor(who.apart().config)
		if err != nil {
			return 0, 0, err
		}
		if err := who.asked(ctx, one); err != nil { // then it has a connection
			return 0, 0, fmt.Errorf("one request: %w", err)
		}
		crowd = append(crowd, one)
	}
	held, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var unread []io.Closer
	for range inFlightLimit {
		resp, err := who.begin(held, crowd[0], "/api/v1/namespaces/default/configmaps")
		if err != nil {
			return 0, 0, fmt.Errorf("a list that nobody reads: %w", err)
		}
		unread = append(unread, resp.Body)
	}
	var were, were429 atomic.Int32
	var wrong atomic.Pointer[error]
	for i := range crowdTries {
		all.Go(func() {
			switch err := who.asked(held, crowd[i%crowdConnections]); {
			case err == nil:
				were.Add(1)
			case errors.Is(err, errAtLimit):
				were429.Add(1)
			default:
				wrong.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := eventually(ctx, "those too many are refused", func() error { return atLeast(&were429, refusedBefore) }); err != nil {
		return 0, 0, errors.Join(err, first(&wrong))
	}
	if err := other.served(neighbour); err != nil {
		return 0, 0, err
	}
	if n := were.Load(); limit > 0 && n > 0 {
		return 0, 0, fmt.Errorf("%d were served beside the %d in flight", n, limit)
	}
	for _, body := range unread {
		_ = body.Close()
	}
	all.Wait()
	return were.Load(), were429.Load(), first(&wrong)
}

func first(err *atomic.Pointer[error]) error {
	if is := err.Load(); is != nil {
		return *is
	}
	return nil
}

// errAtLimit says that a request was refused by spec.limits.requestsInFlight.
var errAtLimit = errors.New("too many requests in flight")

// asked asks for something small, and reads the answer.
func (c clients) asked(ctx context.Context, by *http.Client) error {
	resp, err := c.begin(ctx, by, "/api/v1/namespaces/default")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusTooManyRequests && strings.Contains(string(said), "spec.limits.requestsInFlight"):
		return errAtLimit
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it is answered %d: %s", resp.StatusCode, said)
	}
	return nil
}
