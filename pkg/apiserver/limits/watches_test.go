package limits

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestAWatchCountsByTheLengthOfItsSelectors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		labels, fields []int
		want           int64
	}{
		"none":                   {nil, nil, 1},
		"empty":                  {[]int{0}, []int{0}, 1},
		"as long as one has":     {[]int{512}, nil, 1},
		"a byte longer":          {[]int{513}, nil, 2},
		"both together":          {[]int{300}, []int{213}, 2},
		"each that is given":     {[]int{512, 512}, nil, 2},
		"as long as a URI":       {[]int{32 << 10}, nil, 64},
		"fields are no cheaper":  {nil, []int{32 << 10}, 64},
		"the longest label":      {[]int{253 + 1 + 63 + 1 + 63}, nil, 1},
		"the name of any object": {nil, []int{len("metadata.name=") + 253}, 1},
	} {
		query := url.Values{"resourceVersion": {strings.Repeat("1", 10_000)}}
		for _, n := range c.labels {
			query.Add("labelSelector", strings.Repeat("=", n)) // three bytes each in a URI
		}
		for _, n := range c.fields {
			query.Add("fieldSelector", strings.Repeat(",", n))
		}
		parsed, err := url.ParseQuery(query.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got := watchesOf(parsed); got != c.want {
			t.Errorf("%s: counts for %d, want %d", name, got, c.want)
		}
	}
}

func TestWatchesGiveBackWhatTheyCountedFor(t *testing.T) {
	t.Parallel()
	lc := &tenancy.LogicalCluster{Spec: tenancy.LogicalClusterSpec{Limits: tenancy.LogicalClusterLimits{Watches: 10}}}
	c := New(Config{Find: func(context.Context, logicalcluster.Name) (*tenancy.LogicalCluster, error) { return lc, nil }})
	open := map[string]chan struct{}{}
	var opened chan bool
	served := c.Watches(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		end := open[req.Header.Get("as")]
		opened <- true
		<-end
	}))
	ended := map[string]chan struct{}{}
	ask := func(as string, u user.Info, path string, selector int) *metav1.Status {
		req := httptest.NewRequestWithContext(scope.WithCluster(request.WithRequestInfo(request.WithUser(t.Context(), u), &request.RequestInfo{IsResourceRequest: true, Verb: "watch"}), "shop"),
			http.MethodGet, path+"labelSelector="+strings.Repeat("a,", selector/2), nil)
		req.Header.Set("as", as)
		answer := httptest.NewRecorder()
		open[as], ended[as], opened = make(chan struct{}), make(chan struct{}), make(chan bool, 1)
		go func() {
			defer close(ended[as])
			served.ServeHTTP(answer, req)
		}()
		select {
		case <-opened:
			return nil
		case <-ended[as]:
		}
		s := &metav1.Status{}
		if err := json.Unmarshal(answer.Body.Bytes(), s); err != nil || answer.Code != int(s.Code) {
			t.Fatalf("%s: %d %s", as, answer.Code, answer.Body)
		}
		return s
	}
	end := func(as string) { close(open[as]); <-ended[as] }
	const list, deprecated = "/api/v1/configmaps?watch=1&", "/api/v1/watch/configmaps?"
	for _, step := range []struct {
		as, path string
		selector int
		refused  string
	}{
		{"a", list, 4096, ""},
		{"b", list, 2048, "has 8 watches at this server, and one that counts for 4 more"},
		{"c", deprecated, 2048, "has 8 watches at this server, and one that counts for 4 more"},
		{"d", list, 0, ""},
		{"e", deprecated, 512, ""},
		{"f", list, 0, "has 10 watches at this server, and spec.limits.watches"},
	} {
		switch s := ask(step.as, ann, step.path, step.selector); {
		case step.refused == "" && s != nil, step.refused != "" && s == nil:
			t.Fatalf("%s: %v", step.as, s)
		case s != nil && (s.Code != http.StatusTooManyRequests || s.Details.Causes[0].Field != "spec.limits.watches" || !strings.Contains(s.Message, step.refused)):
			t.Errorf("%s is refused with %+v", step.as, s)
		}
	}
	if s := ask("admin", &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, list, 30<<10); s != nil {
		t.Errorf("an admin: %v", s)
	}
	end("a")
	if s := ask("g", ann, list, 4096); s != nil {
		t.Errorf("after one of the same length has ended: %v", s)
	}
	for _, as := range []string{"d", "e", "g", "admin"} {
		end(as)
	}
	if len(c.watches) > 0 {
		t.Errorf("none is open, and %v are counted", c.watches)
	}
}

// connection is as one of HTTP/2.
type connection struct{ *httptest.ResponseRecorder }

// CloseNotify implements http.CloseNotifier.
func (connection) CloseNotify() <-chan bool { return nil }

// A watch of custom resources keeps what it was sent, and counts for that.
func TestAWatchCountsForWhatItKeeps(t *testing.T) {
	t.Parallel()
	lc := &tenancy.LogicalCluster{Spec: tenancy.LogicalClusterSpec{Limits: tenancy.LogicalClusterLimits{Watches: 10}}}
	ann := &user.DefaultInfo{Name: "ann"}
	for name, step := range map[string]struct {
		group  string
		events []int
		counts int64
		ends   bool
	}{
		"nothing":                        {group: "example.com", counts: 1},
		"what is small":                  {group: "example.com", events: []int{10, keptBytes/2 - 1}, counts: 1},
		"as much as three have room for": {group: "example.com", events: []int{10, keptBytes, 20}, counts: 3},
		"the largest counts":             {group: "example.com", events: []int{keptBytes, 2 * keptBytes, keptBytes}, counts: 5},
		"as much as there may be":        {group: "example.com", events: []int{4*keptBytes + keptBytes/2}, counts: 10},
		"more":                           {group: "example.com", events: []int{4 * keptBytes, 5 * keptBytes}, counts: 9, ends: true},
		"built-in kinds keep nothing":    {group: "apps", events: []int{100 * keptBytes}, counts: 1},
		"nor do definitions":             {group: "apiextensions.k8s.io", events: []int{100 * keptBytes}, counts: 1},
		"nor do those of the core":       {group: "", events: []int{100 * keptBytes}, counts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(Config{Find: func(context.Context, logicalcluster.Name) (*tenancy.LogicalCluster, error) { return lc, nil }})
			served := c.Watches(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if _, ok := w.(http.Flusher); !ok {
					t.Error("events cannot be flushed")
				}
				for _, n := range step.events {
					if wrote, err := w.Write(make([]byte, n)); wrote != n || err != nil {
						t.Error(wrote, err)
					}
				}
				if is := c.watches["shop"]; is != step.counts {
					t.Errorf("it counts for %d, want %d", is, step.counts)
				}
				if ended := req.Context().Err() != nil; ended != step.ends {
					t.Errorf("it ends: %t, want %t", ended, step.ends)
				}
			}))
			ctx := request.WithRequestInfo(request.WithUser(t.Context(), ann), &request.RequestInfo{IsResourceRequest: true, Verb: "watch", APIGroup: step.group})
			answer := connection{httptest.NewRecorder()}
			served.ServeHTTP(answer, httptest.NewRequestWithContext(scope.WithCluster(ctx, "shop"), http.MethodGet, "/", nil))
			want := 0
			for _, n := range step.events {
				want += n
			}
			came := answer.Body.Bytes()
			if len(came) < want {
				t.Fatalf("%d bytes came, want %d", len(came), want)
			}
			if last := string(came[want:]); step.ends != strings.Contains(last, `{"type":"ERROR","object":{"kind":"Status"`) || step.ends != strings.Contains(last, "spec.limits.watches") {
				t.Errorf("the last event is %q", last)
			}
			if len(c.watches) > 0 {
				t.Errorf("it counts on after its end: %v", c.watches)
			}
		})
	}
}
