package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhetherAPhysicalClusterIsThere(t *testing.T) {
	t.Parallel()
	p := newPhysical(t, nil)
	for how, link := range p.links(t) {
		if err := Present(t.Context(), link, "system", "us"); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		if err := Present(t.Context(), link, "another", "us"); err == nil || !strings.Contains(err.Error(), "another cluster answers there") {
			t.Errorf("%s: of another physical cluster: %v", how, err)
		}
	}
	for code, there := range map[int]bool{
		http.StatusOK: true, http.StatusBadRequest: true, // a syncer of before
		http.StatusForbidden: false, http.StatusNotFound: false, http.StatusServiceUnavailable: false,
	} {
		err := Present(t.Context(), answering(code), "system", "us")
		if (err == nil) != there {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// answering is a link to who answers with a code.
type answering int

func (a answering) Do(context.Context, Call) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

func TestOneQuestionIsForAllWhoAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tooOld, slow = answerAge + time.Millisecond, 600 * time.Millisecond
		var mu sync.Mutex
		asked, takes, fails := map[string]int{}, time.Duration(0), error(nil)
		answers := func(now time.Duration, why error) {
			mu.Lock()
			defer mu.Unlock()
			takes, fails = now, why
		}
		a := NewAsker(func(ctx context.Context, name string) error {
			mu.Lock()
			asked[name]++
			took, err := takes, fails
			mu.Unlock()
			select {
			case <-time.After(took):
				return err
			case <-ctx.Done():
				return fmt.Errorf("it does not answer: %w", ctx.Err())
			}
		})
		is := func(what, name string, times int, wantKnown, wantThere bool) {
			t.Helper()
			known, err := a.Answer(t.Context(), name)
			mu.Lock()
			defer mu.Unlock()
			if known != wantKnown || (err == nil) != wantThere || asked[name] != times {
				t.Errorf("%s: known %t, %v, asked %d times; want %t, there %t, %d times", what, known, err, asked[name], wantKnown, wantThere, times)
			}
		}
		is("asked first", "east", 1, true, true)
		is("asked again at once", "east", 1, true, true)
		is("another one", "west", 1, true, true)
		time.Sleep(tooOld)
		is("a second later", "east", 2, true, true)

		answers(slow, nil)
		time.Sleep(tooOld)
		is("slow", "east", 3, false, true)
		is("slow yet", "east", 3, false, true)
		is("then it answers", "east", 3, true, true)
		time.Sleep(tooOld)
		is("what came a second ago", "east", 4, false, true)
		time.Sleep(slow)
		is("and answers", "east", 4, true, true)

		answers(time.Hour, nil)
		time.Sleep(tooOld)
		is("it hangs", "east", 5, false, true)
		time.Sleep(askTimeout)
		is("for too long", "east", 5, true, false)
		time.Sleep(tooOld)
		is("so it is asked again, and nothing else is said meanwhile", "east", 6, false, false)
		time.Sleep(askTimeout)

		answers(0, errors.New("another cluster answers"))
		time.Sleep(tooOld)
		is("it is refused", "east", 7, true, false)
		answers(0, nil)
		is("that counts for a moment", "east", 7, true, false)
		time.Sleep(tooOld)
		is("and not for ever", "east", 8, true, true)
	})
}

// Who does not wait any more takes the answer from nobody.
func TestWhoEndsDoesNotEndTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAsker(func(ctx context.Context, _ string) error {
			select {
			case <-time.After(100 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if known, err := a.Answer(ended, "east"); known || err != nil {
			t.Errorf("known %t, %v", known, err)
		}
		if known, err := a.Answer(t.Context(), "east"); !known || err != nil {
			t.Errorf("known %t, %v; want the answer", known, err)
		}
	})
}
