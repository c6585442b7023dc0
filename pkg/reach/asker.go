package reach

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// askTimeout is how long a physical cluster has to answer that it is there.
	askTimeout = 2 * time.Second
	// answerDelay is how long who asks waits for the answer: less, as others wait for who asks.
	answerDelay = 250 * time.Millisecond
	// answerAge is for how long an answer counts.
	answerAge = time.Second
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
	// Ask asks the physical cluster of a name. An error says why it is not there.
	Ask func(ctx context.Context, name string) error

	mu        sync.Mutex
	questions map[string]*question
}

// question is one that was asked, or is being asked.
type question struct {
	begun, ended time.Time
	// answered is closed with the answer, before which ended and err are nobody's.
	answered chan struct{}
	err      error
}

// Answer is what a physical cluster answers now: nil, or why it does not, which may be up to
// a second old. It is not known if the answer takes its time: whoever asks again gets it.
func (a *Asker) Answer(ctx context.Context, name string) (known bool, err error) {
	q := a.question(ctx, name)
	late := time.NewTimer(answerDelay)
	defer late.Stop()
	select {
	case <-q.answered:
		return true, q.err
	case <-late.C:
	case <-ctx.Done():
	}
	return false, nil
}

// question is the one of which the answer counts; it is asked if there is none.
//
//	the last one                    its answer counts
//	is not answered yet             when it comes
//	was answered                    for a second since it was asked
//	was refused, or not answered    for a second since that is known
func (a *Asker) question(ctx context.Context, name string) *question {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.questions == nil {
		a.questions = map[string]*question{}
	}
	if q := a.questions[name]; q != nil && q.counts(now) {
		return q
	}
	for other, q := range a.questions { // of those that nobody asks about any more nothing is kept
		if !q.counts(now) {
			delete(a.questions, other)
		}
	}
	q := &question{begun: now, answered: make(chan struct{})}
	a.questions[name] = q
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	go func() { // ends with the answer, or after askTimeout
		defer cancel()
		q.err = a.Ask(ctx, name)
		q.ended = time.Now()
		close(q.answered)
	}()
	return q
}

func (q *question) counts(now time.Time) bool {
	select {
	case <-q.answered:
	default:
		return true
	}
	since := q.begun
	if q.err != nil {
		since = q.ended
	}
	return now.Sub(since) < answerAge
}
