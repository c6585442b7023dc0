package connection

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/skew"
)

// answering is a server that says what a test has it say.
type answering struct {
	code    int
	version []string
	// got are the requests that reached it.
	got []*http.Request
}

func (a *answering) RoundTrip(req *http.Request) (*http.Response, error) {
	a.got = append(a.got, req)
	return &http.Response{StatusCode: a.code, Header: http.Header{skew.ServerHeader: a.version}, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
}

// ask sends a request through a transport and says whether it was answered.
func ask(t *testing.T, through http.RoundTripper, method string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://server/targets/east/clusters/root", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := through.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func TestOnlyAServerThatWorksWithTheSyncerIsHeardAndWrittenFor(t *testing.T) {
	mine := skew.Side{Build: "v5", Revision: 5, Oldest: 3}
	good := []string{skew.Side{Build: "v4", Revision: 4, Oldest: 2}.Header()}
	old := []string{skew.Side{Build: "v2", Revision: 2, Oldest: 1}.Header()}
	new := []string{skew.Side{Build: "v9", Revision: 9, Oldest: 6}.Header()}
	for _, c := range []struct {
		name    string
		code    int
		version []string
		// heard says that the answer reaches who asked, writes that others may follow, and
		// ready that the process is.
		heard, writes, ready bool
	}{
		{"one that works with it", 200, good, true, true, true},
		{"its refusal of something else", 403, good, true, true, true},
		{"one that is too old", 200, old, false, false, false},
		{"one that is too old and finds nothing", 404, old, false, false, false},
		{"one for which the syncer is too old", 503, new, false, false, false},
		{"one that says nothing, from before the handshake", 200, nil, false, false, false},
		{"one that says nonsense", 200, []string{"revision=-1"}, false, false, false},
		{"a proxy without a server", 502, nil, true, true, false},
	} {
		h, server, below := NewHandshake(mine), &answering{code: c.code, version: c.version}, &answering{code: 200}
		up := greeting{h, server}
		if err := ask(t, up, http.MethodGet); (err == nil) != c.heard || err != nil && !IsIncompatible(err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := h.Ready(); (err == nil) != c.ready {
			t.Errorf("%s: ready: %v", c.name, err)
		}
		for where, through := range map[string]http.RoundTripper{"above": up, "below": h.Guard(below)} {
			if err := ask(t, through, http.MethodPut); (err == nil) != c.writes {
				t.Errorf("%s: a write %s: %v", c.name, where, err)
			}
		}
		if sent := len(server.got) + len(below.got); sent != map[bool]int{true: 3, false: 1}[c.writes] {
			t.Errorf("%s: %d requests were sent", c.name, sent)
		}
		if got := server.got[0].Header.Get(skew.SyncerHeader); got != mine.Header() {
			t.Errorf("%s: the syncer says %q of itself", c.name, got)
		}
		if err := ask(t, h.Guard(below), http.MethodGet); err != nil {
			t.Errorf("%s: a read below: %v", c.name, err)
		}
		server.code, server.version = 200, good
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			if err := ask(t, up, method); err != nil {
				t.Errorf("%s: after the server was upgraded: %s: %v", c.name, method, err)
			}
		}
		if err := h.Ready(); err != nil {
			t.Errorf("%s: after the server was upgraded: %v", c.name, err)
		}
	}
}

func TestASyncerWorksWithServersFromBeforeTheHandshake(t *testing.T) {
	h := NewHandshake(skew.Current())
	if err := ask(t, greeting{h, &answering{code: 200}}, http.MethodGet); err != nil {
		t.Error(err)
	}
	if err := h.Ready(); err != nil {
		t.Error(err)
	}
}

func TestTheConfigurationOfOthersStaysAsItIs(t *testing.T) {
	c := &rest.Config{Host: "https://server"}
	if NewHandshake(skew.Current()).Wrap(c).WrapTransport == nil || c.WrapTransport != nil {
		t.Error("the configuration itself was changed, or its copy was not")
	}
}
