package connection

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pace is a server whose answers take their time, until nobody waits for them any more.
type pace struct {
	header time.Duration
	// parts are the times before each part of the body, which ends with the last.
	parts      []time.Duration
	retryAfter string
}

func (p pace) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := sleep(req, p.header); err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &paced{req: req, parts: p.parts}}
	if p.retryAfter != "" {
		resp.Header.Set("Retry-After", p.retryAfter)
	}
	return resp, nil
}

type paced struct {
	req   *http.Request
	parts []time.Duration
}

func (b *paced) Read(p []byte) (int, error) {
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	err := sleep(b.req, b.parts[0])
	b.parts = b.parts[1:]
	return copy(p, "x"), err
}

func (b *paced) Close() error { return nil }

func sleep(req *http.Request, d time.Duration) error {
	select {
	case <-req.Context().Done():
		return req.Context().Err()
	case <-time.After(d):
		return nil
	}
}

func TestAnAnswerIsWaitedForAsLongAsItGoesOn(t *testing.T) {
	const never = 1000 * time.Hour
	for name, c := range map[string]struct {
		server  pace
		path    string
		takes   time.Duration
		stalled bool
	}{
		"at once":                         {server: pace{}, path: "/api"},
		"late":                            {server: pace{header: time.Minute}, path: "/api", takes: time.Minute},
		"never":                           {server: pace{header: never}, path: "/api", takes: 70 * time.Second, stalled: true},
		"a header alone":                  {server: pace{parts: []time.Duration{never}}, path: "/api", takes: 70 * time.Second, stalled: true},
		"a large one that goes on":        {server: pace{parts: []time.Duration{time.Minute, time.Minute, time.Minute}}, path: "/api", takes: 3 * time.Minute},
		"one that stops in the middle":    {server: pace{parts: []time.Duration{time.Minute, never}}, path: "/api", takes: 130 * time.Second, stalled: true},
		"a watch that is never begun":     {server: pace{header: never}, path: "/api?watch=true", takes: 70 * time.Second, stalled: true},
		"a watch in which nothing is":     {server: pace{parts: []time.Duration{10 * time.Minute}}, path: "/api?watch=true&timeoutSeconds=600", takes: 10 * time.Minute},
		"a watch without an end":          {server: pace{parts: []time.Duration{9 * time.Minute, never}}, path: "/api?watch=true&timeoutSeconds=600", takes: 670 * time.Second, stalled: true},
		"a watch that asked for no end":   {server: pace{parts: []time.Duration{time.Hour, time.Hour}}, path: "/api?watch=1", takes: 2 * time.Hour},
		"a list that is asked for an end": {server: pace{parts: []time.Duration{never}}, path: "/api?timeoutSeconds=600", takes: 70 * time.Second, stalled: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := exchange(t, defaultTimeouts.with(c.server), c.path)
				if took := time.Since(began); took != c.takes || errors.Is(err, errStalled) != c.stalled || err != nil && !c.stalled {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

func exchange(t *testing.T, through http.RoundTripper, path string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://physical"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := through.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func TestNobodyWaitsForLongBecauseAServerSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		said, want string
		within     time.Duration
	}{
		"nothing is said":                       {"", "", time.Second},
		"for a moment":                          {"1", "1", 0},
		"for as long as is borne":               {"5", "5", 0},
		"for an hour":                           {"3600", "5", 0},
		"for more than an age":                  {"99999999999", "5", 0},
		"there is time for it":                  {"3600", "5", time.Minute},
		"there is no time for it":               {"3600", "", 4 * time.Second},
		"until a day: clients do not read that": {"Wed, 21 Oct 2099 07:28:00 GMT", "Wed, 21 Oct 2099 07:28:00 GMT", 0},
	} {
		ctx, cancel := t.Context(), func() {}
		if c.within > 0 {
			ctx, cancel = context.WithTimeout(ctx, c.within)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://physical/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := defaultTimeouts.with(pace{retryAfter: c.said}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Retry-After"); got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", name, c.said, got, c.want)
		}
		_ = resp.Body.Close()
		cancel()
	}
}

func TestWhoGivesUpDoesNotBlameTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://physical/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := defaultTimeouts.with(pace{parts: []time.Duration{time.Hour}}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err == nil || strings.Contains(err.Error(), errStalled.Error()) {
			t.Errorf("what was closed is read: %v", err)
		}
	})
}
