package space

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestWhatMayBeWritten(t *testing.T) {
	t.Parallel()
	const quota = 1000 * mib
	for name, c := range map[string]struct {
		free, used uint64 // MiB
		before     level
		want       level
		says       string
	}{
		"room":                            {1000, 100, writable, writable, ""},
		"little room left":                {192, 100, writable, writable, ""},
		"too little":                      {191, 100, writable, deletions, "191 MiB left"},
		"as before, for a while":          {255, 100, deletions, deletions, "writes go on from 256 MiB"},
		"enough again":                    {256, 100, deletions, writable, ""},
		"hardly anything":                 {95, 100, deletions, nothing, "95 MiB left"},
		"all at once":                     {0, 100, writable, nothing, "0 MiB left"},
		"a little more than hardly":       {97, 100, nothing, deletions, "97 MiB left"},
		"the database is nearly full":     {1000, 900, writable, deletions, "900 MiB, 90%"},
		"it was":                          {1000, 800, deletions, deletions, "80%"},
		"it has been emptied":             {1000, 799, deletions, writable, ""},
		"nearly full, and so is the disk": {10, 900, writable, nothing, "10 MiB left"},
	} {
		got, why := decide(Reading{Free: c.free * mib, Used: c.used * mib, Quota: quota}, c.before)
		if got != c.want || (c.says == "") != (why == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
}

func TestWhatMayBeWrittenWithFewFileDescriptors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left, limit, free uint64
		before            level
		want              level
		says              string
	}{
		"nobody knows":                {0, 0, 1000, writable, writable, ""},
		"some":                        {32, 300, 1000, writable, writable, ""},
		"few":                         {31, 300, 1000, writable, nothing, "31 of its 300 file descriptors left"},
		"none":                        {0, 300, 1000, nothing, nothing, "LimitNOFILE"},
		"some, and a while ago few":   {63, 300, 1000, nothing, deletions, "writes go on from 64"},
		"enough again":                {64, 300, 1000, deletions, writable, ""},
		"few, and little of the disk": {31, 300, 100, writable, nothing, "file descriptors"},
		"few, and none of the disk":   {31, 300, 10, writable, nothing, "10 MiB left"},
	} {
		got, why := decide(Reading{Free: c.free * mib, FilesLeft: c.left, FilesLimit: c.limit}, c.before)
		if got != c.want || (c.says == "") != (why == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
}

var (
	alice  = &user.DefaultInfo{Name: "alice"}
	system = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
)

func ask(g *Guard, u user.Info, info request.RequestInfo, query string) *httptest.ResponseRecorder {
	info.IsResourceRequest = true
	codecs := serializer.NewCodecFactory(scheme())
	handler := g.With(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), codecs)
	req := httptest.NewRequest(http.MethodPost, "/api/v1/x"+query, nil)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, req.WithContext(request.WithUser(request.WithRequestInfo(req.Context(), &info), u)))
	return rec
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metav1.Unversioned)
	return s
}

func TestWhoIsRefusedWhileTheServerIsReadOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by    user.Info
		info  request.RequestInfo
		query string
		want  [3]bool // refused at the level writable, deletions, nothing
	}{
		"a read":                {alice, request.RequestInfo{Verb: "list", Resource: "pods"}, "", [3]bool{}},
		"a write":               {alice, request.RequestInfo{Verb: "create", Resource: "pods"}, "", [3]bool{false, true, true}},
		"a dry run":             {alice, request.RequestInfo{Verb: "create", Resource: "pods"}, "?dryRun=All", [3]bool{}},
		"a deletion":            {alice, request.RequestInfo{Verb: "delete", Resource: "pods"}, "", [3]bool{false, false, true}},
		"an eviction":           {alice, request.RequestInfo{Verb: "create", Resource: "pods", Subresource: "eviction"}, "", [3]bool{false, false, true}},
		"a review":              {alice, request.RequestInfo{Verb: "create", APIGroup: "authorization.k8s.io", Resource: "subjectaccessreviews"}, "", [3]bool{}},
		"a token":               {alice, request.RequestInfo{Verb: "create", Resource: "serviceaccounts", Subresource: "token"}, "", [3]bool{}},
		"a finalizer that goes": {system, request.RequestInfo{Verb: "patch", Resource: "pods"}, "", [3]bool{false, false, true}},
		"an event":              {system, request.RequestInfo{Verb: "create", Resource: "events"}, "", [3]bool{false, true, true}},
	} {
		for i, free := range []uint64{1000, 150, 50} {
			g := NewGuard(func() (Reading, error) { return Reading{Free: free * mib}, nil })
			rec := ask(g, c.by, c.info, c.query)
			if refused := rec.Code == http.StatusInsufficientStorage; refused != c.want[i] {
				t.Errorf("%s with %d MiB left: refused %v", name, free, refused)
			}
		}
	}
}

func TestARefusalNamesTheCauseAndTheWayOut(t *testing.T) {
	t.Parallel()
	g := NewGuard(func() (Reading, error) { return Reading{Free: 100 * mib}, nil })
	rec := ask(g, alice, request.RequestInfo{Verb: "create", Resource: "pods"}, "")
	var status metav1.Status
	if err := json.Unmarshal(rec.Body.Bytes(), &status); err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
	const want = "the server is read-only: the disk of the data directory has 100 MiB left: free some space there, writes go on from 256 MiB"
	if status.Message != want || status.Reason != ReasonInsufficientStorage || status.Code != http.StatusInsufficientStorage {
		t.Errorf("answer %+v", status)
	}
}

func TestAReadingIsBelievedForAMoment(t *testing.T) {
	t.Parallel()
	now, readings, fails := time.Unix(1000, 0), 0, false
	free := uint64(1000 * mib)
	g := NewGuard(func() (Reading, error) {
		readings++
		if fails {
			return Reading{}, errors.New("no answer")
		}
		return Reading{Free: free}, nil
	})
	g.now = func() time.Time { return now }
	for range 100 {
		g.look()
		now = now.Add(probeInterval / 50)
	}
	if readings < 2 || readings > 4 {
		t.Errorf("%d readings for 100 writes in the time of two", readings)
	}
	// With little room each write asks: the rest may go in one stroke.
	free, now, readings = 150*mib, now.Add(probeInterval), 0
	if level, _ := g.look(); level != deletions {
		t.Errorf("with little room: %v", level)
	}
	free = 10 * mib
	if level, _ := g.look(); level != nothing || readings != 2 {
		t.Errorf("a moment later, without any: %v after %d readings", level, readings)
	}
	fails, now = true, now.Add(time.Hour)
	if level, _ := g.look(); level != nothing {
		t.Errorf("a reading that fails made it %v", level)
	}
}
