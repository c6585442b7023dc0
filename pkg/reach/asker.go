package reach

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// askTimeout is how long a physical cluster has to answer that it is there.
	askTimeout = 2 * time.Second
	// answerDelay is how long who asks waits for the answer: less, as others wait for who asks.
	answerDelay = 250 * time.Millisecond
	// answerAge is for how long an answer counts, mostAnswers of how many physical clusters one is kept.
	answerAge   = time.Second
	mostAnswers = 4096
	// failureAge is for how long the last failure is said of one that does not answer again.
	failureAge = 10 * time.Second
)

// Present asks a physical cluster of a UID (of the namespace kube-system there) whether it is
// there. An error says why it cannot be reached.
//
//	link, or answer      then
//	nobody is reached    error
//	2xx                  nil
//	400                  nil: a syncer from before there was this question. It is there
//	any other            error
func Present(ctx context.Context, link Link, uid types.UID, controlPlane string) error {
	c := Call{Subresource: Presence, Method: http.MethodGet, Pod: Pod{PhysicalCluster: uid, ControlPlane: controlPlane}}
	resp, err := link.Do(ctx, c)
	switch {
	case err != nil:
	case resp.StatusCode < http.StatusMultipleChoices, resp.StatusCode == http.StatusBadRequest:
		_ = resp.Body.Close()
		return nil
	default:
		err = c.Failure(resp)
	}
	return fmt.Errorf("it was asked a moment ago, and cannot be reached: %s", strings.TrimPrefix(err.Error(), unavailable))
}

// Asker asks physical clusters whether they are there: one question at a time to each, however
// many want to know.
type Asker struct {
	ask     func(ctx context.Context, name string) error
	flights singleflight.Group
	answers *cache.LRUExpireCache
	// failures are the last answers that were one.
	failures *cache.LRUExpireCache
}

// answer is nil, or why a physical cluster is not there.
type answer struct{ error }

// NewAsker asks the physical cluster of a name by ask, whose error says why it is not there.
func NewAsker(ask func(ctx context.Context, name string) error) *Asker {
	return &Asker{ask: ask, answers: cache.NewLRUExpireCache(mostAnswers), failures: cache.NewLRUExpireCache(mostAnswers)}
}

// Answer is what a physical cluster answers now: nil, or why it does not. It may be up to
// a second old. It is not known if the answer takes its time: whoever asks again gets it. The error is that of
// the last answer then, if there was one: of one that hangs the same is said all the time, and not now that it
// is asked and now that it did not answer.
func (a *Asker) Answer(ctx context.Context, name string) (known bool, err error) {
	if last, ok := a.answers.Get(name); ok {
		return true, last.(answer).error
	}
	came := a.flights.DoChan(name, func() (any, error) { // also for those who ask after ctx has ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		err := a.ask(ctx, name)
		a.answers.Add(name, answer{err}, answerAge)
		if err != nil {
			a.failures.Add(name, answer{err}, failureAge)
		} else {
			a.failures.Remove(name)
		}
		return nil, err
	})
	late := time.NewTimer(answerDelay)
	defer late.Stop()
	select {
	case result := <-came:
		return true, result.Err
	case <-late.C:
	case <-ctx.Done():
	}
	if last, ok := a.failures.Get(name); ok {
		return false, last.(answer).error
	}
	return false, nil
}
