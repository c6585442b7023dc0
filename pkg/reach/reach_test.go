package reach

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// physical is the API server of a physical cluster.
type physical struct {
	*httptest.Server
	objects map[string]string // path: metadata, as JSON

	mu    sync.Mutex
	asked []*http.Request
}

func newPhysical(t *testing.T, answer http.HandlerFunc) *physical {
	t.Helper()
	p := &physical{objects: map[string]string{
		"/api/v1/namespaces/kube-system":       `{"uid":"system"}`,
		"/api/v1/namespaces/p-web":             `{"uid":"n","labels":{"atoll.dev/managed-by":"us"},"annotations":{"atoll.dev/logical-cluster":"shop","atoll.dev/namespace":"web"}}`,
		"/api/v1/namespaces/p-web/pods/a":      `{"uid":"pod"}`,
		"/api/v1/namespaces/p-other":           `{"uid":"o","labels":{"atoll.dev/managed-by":"us"},"annotations":{"atoll.dev/logical-cluster":"bank","atoll.dev/namespace":"web"}}`,
		"/api/v1/namespaces/p-other/pods/a":    `{"uid":"pod"}`,
		"/api/v1/namespaces/default":           `{"uid":"d"}`,
		"/api/v1/namespaces/default/pods/a":    `{"uid":"pod"}`,
		"/api/v1/namespaces/forbidden/pods/ab": `{"uid":"pod"}`,
	}}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, req)
		p.mu.Unlock()
		if object, ok := p.objects[req.URL.Path]; ok {
			fmt.Fprintf(w, `{"metadata":%s}`, object)
			return
		}
		if answer != nil && (strings.HasPrefix(req.URL.Path, "/api/v1/namespaces/p-web/pods/a/") || strings.HasPrefix(req.URL.Path, metricsPath)) {
			answer(w, req)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(p.Close)
	return p
}

// links are the two ways to a physical cluster: to it, and through a syncer.
func (p *physical) links(t *testing.T) map[string]Link {
	t.Helper()
	direct, err := NewDirect(&rest.Config{Host: p.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Link{"direct": direct, "through a syncer": Remote{Dial: func(context.Context) (net.Conn, error) {
		here, far := net.Pipe()
		go Serve(t.Context(), far, direct)
		return here, nil
	}}}
}

func call(change func(*Call)) Call {
	c := Call{
		Pod:         Pod{PhysicalCluster: "system", Namespace: "p-web", Name: "a", UID: "pod", ControlPlane: "us", LogicalCluster: "shop", LogicalNamespace: "web"},
		Subresource: "log", Method: http.MethodGet, Query: url.Values{"container": {"x"}}, AuditID: "audit",
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestAPodIsAskedOnlyIfItIsTheOneThatIsMeant(t *testing.T) {
	t.Parallel()
	answered := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }
	p := newPhysical(t, answered)
	for how, link := range p.links(t) {
		for name, c := range map[string]struct {
			change func(*Call)
			reason func(error) bool
			want   string
		}{
			"another physical cluster":   {func(c *Call) { c.Pod.PhysicalCluster = "other" }, apierrors.IsServiceUnavailable, "another cluster answers"},
			"of another logical cluster": {func(c *Call) { c.Pod.Namespace = "p-other" }, apierrors.IsConflict, "not the one that the control plane made"},
			"not ours":                   {func(c *Call) { c.Pod.Namespace = "default" }, apierrors.IsConflict, "not the one that the control plane made"},
			"of another control plane":   {func(c *Call) { c.Pod.ControlPlane = "them" }, apierrors.IsConflict, "not the one that the control plane made"},
			"no namespace":               {func(c *Call) { c.Pod.Namespace = "none" }, apierrors.IsConflict, "not the one that the control plane made"},
			"no pod":                     {func(c *Call) { c.Pod.Name = "b" }, apierrors.IsConflict, "not there any more"},
			"another pod":                {func(c *Call) { c.Pod.UID = "other" }, apierrors.IsConflict, "another pod has its name"},
			"another subresource":        {func(c *Call) { c.Subresource = "eviction" }, apierrors.IsBadRequest, "none of"},
			"a path for a name":          {func(c *Call) { c.Pod.Name = "../../secrets/a" }, apierrors.IsBadRequest, "no name"},
			"a write":                    {func(c *Call) { c.Method = http.MethodDelete }, apierrors.IsBadRequest, "method"},
			"nobody's":                   {func(c *Call) { c.Pod.LogicalCluster = "" }, apierrors.IsBadRequest, "told apart"},
			"the one":                    {nil, nil, ""},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				c := call(c.change)
				resp, err := link.Do(t.Context(), c)
				if err == nil && resp.StatusCode >= 400 {
					err = c.Failure(resp)
				}
				if want := map[string]bool{"the one": true}[name]; want {
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello" {
						t.Errorf("got %q, %v", body, err)
					}
					return
				}
				tc := err
				if tc == nil {
					t.Fatal("it was asked")
				}
			})
			if name == "the one" {
				continue
			}
			_, err := link.Do(t.Context(), call(c.change))
			if how == "direct" && (!c.reason(err) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, req := range p.asked {
		if strings.Contains(req.URL.Path, "p-other/pods/a/") || strings.Contains(req.URL.Path, "default/pods/a/") || strings.Contains(req.URL.Path, "secrets") {
			t.Errorf("%s was asked", req.URL.Path)
		}
	}
}

func TestWhatTheClientSaysIsNotPassedOn(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 2)
	queries := make(chan string, 2)
	p := newPhysical(t, func(_ http.ResponseWriter, req *http.Request) { headers <- req.Header; queries <- req.URL.RawQuery })
	client := http.Header{
		"Authorization": {"Bearer of-a-user"}, "Cookie": {"a=b"}, "Impersonate-User": {"admin"}, "X-Remote-User": {"admin"}, "X-Forwarded-For": {"10.0.0.1"},
		"Audit-Id": {"forged"}, "Atoll-Pod": {"forged"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Protocol": {"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"}, "Sec-Websocket-Key": {"k"},
	}
	for how, link := range p.links(t) {
		c := call(func(c *Call) {
			c.Subresource, c.Upgrade, c.Query = "exec", UpgradeHeaders(client), url.Values{"command": {"a b", "c&d"}, "container": {"x"}}
		})
		resp, err := link.Do(t.Context(), c)
		if err != nil {
			t.Fatal(how, err)
		}
		_ = resp.Body.Close()
		want := http.Header{
			"Authorization": {"Bearer secret"}, "Audit-Id": {"audit"}, "User-Agent": {"atoll"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Protocol": {"v5.channel.k8s.io"}, "Sec-Websocket-Key": {"k"},
		}
		if diff := cmp.Diff(want, <-headers); diff != "" {
			t.Errorf("%s (-want +got)\n%s", how, diff)
		}
		if got, want := <-queries, "command=a+b&command=c%26d&container=x"; got != want {
			t.Errorf("%s: the query is %q, want %q", how, got, want)
		}
	}
}

func TestWhoeverAnswersIsVerified(t *testing.T) {
	t.Parallel()
	p := newPhysical(t, nil)
	other := newPhysical(t, nil)
	direct, err := NewDirect(&rest.Config{Host: p.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{ServerName: "other.invalid",
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})},
		Dial: (&net.Dialer{}).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Do(t.Context(), call(nil)); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) > 0 {
		t.Errorf("a server without the certificate was sent %v", p.asked[0].Header)
	}
}

func TestACallUsesOneConnection(t *testing.T) {
	t.Parallel()
	p := newPhysical(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	for how, link := range p.links(t) {
		for range 3 {
			resp, err := link.Do(t.Context(), call(nil))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		p.mu.Lock()
		from := map[string]int{}
		for _, req := range p.asked {
			from[req.RemoteAddr]++
		}
		p.asked = nil
		p.mu.Unlock()
		if len(from) != 3 {
			t.Errorf("%s: three calls used %d connections", how, len(from))
		}
		for _, n := range from {
			if n != 4 {
				t.Errorf("%s: a connection had %d requests, want three questions and the call", how, n)
			}
		}
	}
}

func TestAUserReadsErrorsWithoutThePhysicalCluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code       int
		body, want string
		wantCode   int32
	}{
		"a bad request": {400, `{"kind":"Status","message":"container x is not valid for pod a in p-web","reason":"BadRequest","code":400}`,
			"container x is not valid for pod a in web", 400},
		"a node that does not answer": {500, `{"kind":"Status","message":"Get \"https://10.0.0.5:10250/containerLogs/p-web/a/x\": dial tcp 10.0.0.5:10250: connect: connection refused","code":500}`,
			`Get "its node": dial tcp its node: connect: connection refused`, 500},
		"not permitted": {403, `{"kind":"Status","message":"pods \"a\" is forbidden: User \"system:serviceaccount:atoll:syncer\" cannot create resource \"pods/exec\" in the namespace \"p-web\"","code":403}`,
			"the physical cluster of the pod cannot be reached: the control plane is not permitted to do that there; its administrator finds the rules in docs/reaching-down.md", 503},
		"unauthorized": {401, `{"message":"Unauthorized"}`,
			"the physical cluster of the pod cannot be reached: the control plane is not permitted to do that there; its administrator finds the rules in docs/reaching-down.md", 503},
		"gone":             {404, `{"kind":"Status","message":"pods \"a\" not found","details":{"name":"a","kind":"pods"},"code":404}`, "the pod cannot be reached: it is not there any more", 409},
		"text":             {500, "unable to upgrade connection: container not found (\"x\")", "unable to upgrade connection: container not found (\"x\")", 500},
		"nothing":          {502, "", "the physical cluster of the pod answers with an error and says nothing about it", 502},
		"a redirect":       {302, "", "the physical cluster of the pod answered 302 where an error or a stream was expected", 502},
		"without an end":   {500, strings.Repeat("x", 1<<20), strings.Repeat("x", maxMessage) + "...", 500},
		"the UID of a pod": {500, "pod a_p-web(pod) failed", "pod a_web(its UID) failed", 500},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := call(func(c *Call) { c.Pod.UID = "(pod)" })
			err := c2.Failure(&http.Response{StatusCode: c.code, Body: io.NopCloser(strings.NewReader(c.body))})
			var status *apierrors.StatusError
			if !errors.As(err, &status) || status.ErrStatus.Code != c.wantCode {
				t.Fatalf("got %#v", err)
			}
			if want := strings.ReplaceAll(c.want, "(its UID)", "its UID"); status.ErrStatus.Message != want {
				t.Errorf("got %q, want %q", status.ErrStatus.Message, want)
			}
		})
	}
}

func TestACallThatIsGivenUpEndsBelow(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"direct", "through a syncer"} {
		begun, ended := make(chan struct{}), make(chan struct{})
		p := newPhysical(t, func(w http.ResponseWriter, req *http.Request) {
			fmt.Fprintln(w, "line")
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-req.Context().Done()
			close(ended)
		})
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := p.links(t)[how].Do(ctx, call(nil))
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		cancel()
		_ = resp.Body.Close()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the log is followed although nobody reads", how)
		}
	}
}

func TestAPhysicalClusterThatDoesNotAnswerIsSaidSoWithoutItsAddress(t *testing.T) {
	t.Parallel()
	p := newPhysical(t, nil)
	links := p.links(t)
	p.Close()
	for how, link := range links {
		resp, err := link.Do(t.Context(), call(nil))
		if err == nil {
			err = call(nil).Failure(resp)
		}
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "it does not answer") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", how, err)
		}
	}
}
