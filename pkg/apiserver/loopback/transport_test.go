package loopback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func serving(h http.HandlerFunc) *http.Client {
	t := NewTransport()
	t.Serve(h)
	return &http.Client{Transport: t}
}

func request(ctx context.Context, t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "https://server:1/api/v1/pods?limit=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestARequestArrivesAsOverANetwork(t *testing.T) {
	type key struct{}
	client := serving(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || req.Context().Value(key{}) != nil || req.TLS != nil {
			t.Errorf("error %v, context value %v, TLS %v", err, req.Context().Value(key{}), req.TLS)
		}
		w.Header().Set("X-Seen", strings.Join([]string{req.Method, req.Host, req.RequestURI, req.URL.String(), req.RemoteAddr, req.Header.Get("Authorization"), string(body)}, " "))
		req.Header.Del("Authorization")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "not sent")
		_, _ = io.WriteString(w, "done")
	})
	req := request(context.WithValue(t.Context(), key{}, 1), t, http.MethodPost, strings.NewReader("hello"))
	req.Header.Set("Authorization", "Bearer t")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{resp.Status, resp.ContentLength, resp.Header, string(body)}
	want := []any{"201 Created", int64(4), http.Header{"X-Seen": {"POST server:1 /api/v1/pods?limit=1 /api/v1/pods?limit=1 127.0.0.1:0 Bearer t hello"}}, "done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected response (-want +got):\n%s", diff)
	}
	if req.Header.Get("Authorization") == "" {
		t.Error("the handler changed the request of the client")
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnAnswerWithoutABodyIsOK(t *testing.T) {
	resp, err := serving(func(http.ResponseWriter, *http.Request) {}).Do(request(t.Context(), t, http.MethodGet, nil))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || len(body) != 0 || err != nil {
		t.Errorf("got %d %q %v", resp.StatusCode, body, err)
	}
}

func TestNobodyListensBeforeTheServerServes(t *testing.T) {
	_, err := (&http.Client{Transport: NewTransport()}).Do(request(t.Context(), t, http.MethodGet, nil))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsFlushedIsReadWhileTheHandlerGoesOn(t *testing.T) {
	events := make(chan string)
	client := serving(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush() // the header only
		for e := range events {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	})
	resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	for _, e := range []string{"added", "modified", "deleted"} {
		events <- e
		n, err := resp.Body.Read(p)
		if err != nil || string(p[:n]) != e {
			t.Fatalf("read %q (%v), want %q", p[:n], err, e)
		}
	}
	close(events)
	if n, err := resp.Body.Read(p); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %q, %v at the end", p[:n], err)
	}
}

func TestTheHandlerLearnsThatTheClientHasGone(t *testing.T) {
	for name, leave := range map[string]func(context.CancelFunc, *http.Response){
		"its context ended":   func(cancel context.CancelFunc, _ *http.Response) { cancel() },
		"it closed the body ": func(_ context.CancelFunc, resp *http.Response) { _ = resp.Body.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			client := serving(func(w http.ResponseWriter, req *http.Request) {
				w.(http.Flusher).Flush()
				<-req.Context().Done()
				_, err := io.WriteString(w, "too late")
				ended <- err
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := client.Do(request(ctx, t, http.MethodGet, nil))
			if err != nil {
				t.Fatal(err)
			}
			read := make(chan error, 1)
			go func() {
				_, err := resp.Body.Read(make([]byte, 1))
				read <- err
			}()
			leave(cancel, resp)
			if err := <-read; err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the reader got %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("the handler wrote to nobody")
			}
		})
	}
}

func TestACancelledRequestDoesNotWaitForItsHandler(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	ctx, cancel := context.WithCancelCause(t.Context())
	client := serving(func(http.ResponseWriter, *http.Request) {
		cancel(errors.New("enough"))
		<-stuck
	})
	if _, err := client.Do(request(ctx, t, http.MethodGet, nil)); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
}

func TestAnUnfinishedAnswerNeverLooksWhole(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"aborted before it began": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"aborted in the middle": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		},
		"aborted after a flush": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"a bug": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic("a bug")
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := serving(h).Do(request(t.Context(), t, http.MethodGet, nil))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestALargeAnswerArrivesWholeAndWaitsForItsReader(t *testing.T) {
	const size, chunk = 16 << 20, 4000
	want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	held := make(chan int, 1)
	client := serving(func(w http.ResponseWriter, req *http.Request) {
		time.AfterFunc(50*time.Millisecond, func() { held <- w.(*response).held() })
		for p := want; len(p) > 0; p = p[min(chunk, len(p)):] {
			if _, err := w.Write(p[:min(chunk, len(p))]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
	if err != nil {
		t.Fatal(err)
	}
	if n := <-held; n > holdAt+chunk {
		t.Errorf("%d bytes wait for a reader that does not read", n)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, error %v, want %d", len(got), err, len(want))
	}
}

func (r *response) held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.buf) - r.read
}

func TestManyRequestsAtOnceLeaveNothingBehind(t *testing.T) {
	client := serving(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		if req.Method == http.MethodGet {
			w.(http.Flusher).Flush()
			<-req.Context().Done()
			return
		}
		_, _ = w.Write(body)
	})
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			want := fmt.Sprint("body ", i)
			resp, err := client.Do(request(t.Context(), t, http.MethodPut, strings.NewReader(want)))
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
				t.Errorf("got %q, %v", got, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err = client.Do(request(ctx, t, http.MethodGet, nil))
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestConfigKeepsTheCredentialsOnly(t *testing.T) {
	transport := NewTransport()
	transport.Serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, req.Header.Get("Authorization")+" "+req.URL.Path)
	}))
	over := &rest.Config{Host: "https://server:1", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), ServerName: "s"}}
	client, err := rest.UnversionedRESTClientFor(unversioned(transport.Config(over)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Get().AbsPath("/version").DoRaw(t.Context())
	if err != nil || string(got) != "Bearer secret /version" {
		t.Errorf("got %q, %v", got, err)
	}
	if over.Transport != nil || len(over.CAData) == 0 {
		t.Error("the configuration itself was changed")
	}
}

func unversioned(c *rest.Config) *rest.Config {
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}
