package answers

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// endless answers without end, and counts what it got rid of.
func endless(t *testing.T) (url string, sent *atomic.Int64) {
	t.Helper()
	sent = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := bytes.Repeat([]byte("x"), 16<<10)
		for {
			n, err := w.Write(part)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, sent
}

func get(t *testing.T, r *Reader, url, body string) ([]byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: r.With(http.DefaultTransport)}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func TestAnAnswerWithoutEndIsReadToItsBound(t *testing.T) {
	url, sent := endless(t)
	const most = 1 << 20
	data, err := get(t, NewReader(Bounds{Most: most, Together: most, Free: most}), url, "")
	if !errors.Is(err, ErrTooLarge) || len(data) > most {
		t.Errorf("%d bytes were read: %v", len(data), err)
	}
	if sent.Load() > most+(8<<20) { // what sockets hold
		t.Errorf("%d bytes were taken", sent.Load())
	}
}

func TestWhatIsSentCounts(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 100)) }))
	t.Cleanup(s.Close)
	r := NewReader(Bounds{Most: 10, PerSent: 2, Together: 1000})
	if _, err := get(t, r, s.URL, strings.Repeat("a", 44)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("98 bytes at most: %v", err)
	}
	if data, err := get(t, r, s.URL, strings.Repeat("a", 45)); err != nil || len(data) != 100 {
		t.Errorf("100 bytes at most: %d, %v", len(data), err)
	}
}

func TestALengthThatIsSaidIsBelievedAtOnce(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<30))
	}))
	t.Cleanup(s.Close)
	if _, err := get(t, NewReader(Bounds{Most: 10, Together: 10}), s.URL, ""); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestLargeAnswersOfOneOwnerAreReadWithinABudget(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 100)) }))
	t.Cleanup(s.Close)
	r := NewReader(Bounds{Most: 1000, Together: 150, Free: 10, Owner: func(req *http.Request) string { return req.URL.Path }})
	held := func(path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.With(http.DefaultTransport).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		_, err = io.ReadAll(resp.Body)
		return resp, err
	}
	first, err := held("/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held("/a"); !errors.Is(err, ErrTooMany) {
		t.Errorf("beside another one: %v", err)
	}
	if _, err := held("/b"); err != nil {
		t.Errorf("of another owner: %v", err)
	}
	_ = first.Body.Close()
	if resp, err := held("/a"); err != nil {
		t.Errorf("after it: %v", err)
	} else {
		_ = resp.Body.Close()
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	reached := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(inside.Close)
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := httptest.NewServer(http.RedirectHandler(inside.URL, code))
		if _, err := get(t, NewReader(Bounds{Most: 1000, Together: 1000}), s.URL, "a"); err == nil || !strings.Contains(err.Error(), "redirects elsewhere") || reached {
			t.Errorf("%d: %v, reached %v", code, err, reached)
		}
		s.Close()
	}
}

func TestAWatchIsNotCountedWhereWeChooseTheURL(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 100)) }))
	t.Cleanup(s.Close)
	if data, err := get(t, NewReader(Bounds{Most: 1, Together: 1, Watches: true}), s.URL+"/?watch=true", ""); err != nil || len(data) != 100 {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	if _, err := get(t, NewReader(Bounds{Most: 1, Together: 1}), s.URL+"/?watch=true", ""); !errors.Is(err, ErrTooLarge) {
		t.Errorf("where somebody else does: %v", err)
	}
}

// A header is read before anything can count it.
func TestAHeaderWithoutEndIsReadToItsBound(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			var length atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Proto != protocol {
					t.Errorf("asked by %s", req.Proto)
				}
				for n := int64(0); n < length.Load(); n += 1 << 10 {
					w.Header().Add("X-Much", strings.Repeat("x", 1<<10))
				}
			}))
			s.EnableHTTP2 = protocol == "HTTP/2.0"
			s.StartTLS()
			t.Cleanup(s.Close)
			get := func(next http.RoundTripper) error {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := next.RoundTrip(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				return err
			}
			below, ok := s.Client().Transport.(*http.Transport)
			if !ok {
				t.Fatalf("%T", s.Client().Transport)
			}
			r := NewReader(Bounds{Most: 10, Together: 10})
			for name, c := range map[string]struct {
				length int64
				of     http.RoundTripper
				fine   bool
			}{
				"a long one":                    {maxHeader / 2, r.With(below.Clone()), true},
				"a longer one":                  {2 * maxHeader, r.With(below.Clone()), false},
				"that of a transport around it": {2 * maxHeader, r.With(transport{r, below.Clone()}), false},
				"without a bound":               {2 * maxHeader, below, true},
			} {
				length.Store(c.length)
				if err := get(c.of); (err == nil) != c.fine {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	if r := NewReader(Bounds{}); r.With(http.DefaultTransport) != nil && http.DefaultTransport.(*http.Transport).MaxResponseHeaderBytes != 0 {
		t.Error("everybody's transport has a bound")
	}
}
