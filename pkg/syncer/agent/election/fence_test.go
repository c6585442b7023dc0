package election

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestOnlyWritesWaitForTheLease(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(w, req.Body)
	}))
	defer server.Close()
	var f Fence
	client := &http.Client{Transport: fenced{fence: &f, next: http.DefaultTransport}}
	send := func(method string) error {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.ReadAll(resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
	for _, step := range []struct {
		name  string
		do    func()
		write bool
	}{
		{"never held", func() {}, false},
		{"held", func() { f.Extend(time.Now().Add(time.Hour)) }, true},
		{"given back", func() { f.Close() }, false},
		{"held again", func() { f.Extend(time.Now().Add(time.Hour)) }, true},
		{"expired", func() { f.Extend(time.Now()) }, false},
		{"expired by the wall clock only, as after the machine slept", func() {
			f.Extend(time.Now().Add(time.Hour))
			f.wall = f.wall.Add(-2 * time.Hour)
		}, false},
		{"expired by the monotonic clock only, as after the other one was set back", func() {
			f.Extend(time.Now())
			f.wall = f.wall.Add(time.Hour)
		}, false},
	} {
		step.do()
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			if err := send(method); (err == nil) != step.write || err != nil && !errors.Is(err, ErrNotHeld) {
				t.Errorf("%s: %s: %v", step.name, method, err)
			}
		}
		for _, method := range []string{"GET", "HEAD"} {
			if err := send(method); err != nil {
				t.Errorf("%s: %s: %v", step.name, method, err)
			}
		}
	}
}

func TestAWriteThatIsOnItsWayEndsWithTheLease(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(arrived)
		<-req.Context().Done()
		close(ended)
	}))
	defer server.Close()
	var f Fence
	f.Extend(time.Now().Add(time.Hour))
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		resp, err := (fenced{fence: &f, next: http.DefaultTransport}).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		result <- err
	}()
	<-arrived
	f.Extend(time.Now().Add(20 * time.Millisecond)) // the last renewal
	select {
	case err := <-result:
		if !errors.Is(err, ErrNotHeld) {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
	<-ended
}
