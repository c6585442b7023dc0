package apiserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestTheRefusalOfALongURITakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bounded := withBoundedURI(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), clock.RealClock{})
		ask := func(length int) (*httptest.ResponseRecorder, time.Duration) {
			began, w := time.Now(), httptest.NewRecorder()
			bounded.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api?labelSelector="+strings.Repeat("a", length), nil))
			return w, time.Since(began)
		}
		if w, took := ask(100); w.Code != http.StatusOK || took != 0 {
			t.Errorf("a short one: %d after %s", w.Code, took)
		}
		var all sync.WaitGroup
		for range mostDelayed {
			all.Go(func() {
				if w, took := ask(maxURI); w.Code != http.StatusRequestURITooLong || took != refusalDelay || w.Header().Get("Connection") != "" {
					t.Errorf("a long one: %d after %s, %v", w.Code, took, w.Header())
				}
			})
		}
		synctest.Wait()
		if w, took := ask(maxURI); w.Code != http.StatusRequestURITooLong || took != 0 || w.Header().Get("Connection") != "close" {
			t.Errorf("one too many: %d after %s, %v", w.Code, took, w.Header())
		}
		all.Wait()
		if _, took := ask(maxURI); took != refusalDelay {
			t.Errorf("one afterwards is refused after %s", took)
		}
	})
}

func TestALongURIIsLoggedInPart(t *testing.T) {
	t.Parallel()
	for _, length := range []int{100, maxURI - 100} {
		var got *http.Request
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api?labelSelector="+strings.Repeat("a", length), nil)
		withLoggedURI(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got = req })).ServeHTTP(httptest.NewRecorder(), req)
		if n := len(got.RequestURI); n > maxLoggedURI+len("...") || length == 100 && got.RequestURI != req.URL.RequestURI() {
			t.Errorf("of %d bytes %d are logged", length, n)
		}
		if n := len(got.URL.Query().Get("labelSelector")); n != length {
			t.Errorf("of a selector of %d bytes %d are served", length, n)
		}
	}
}
