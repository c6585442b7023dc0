package scope

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestCutReadsTheScopeOfAPath(t *testing.T) {
	for _, tc := range []struct {
		path  string
		scope Scope
		rest  string
		ok    bool
		err   string
	}{
		{path: "/clusters/shop/api/v1", scope: Scope{Cluster: "shop"}, rest: "/api/v1", ok: true},
		{path: "/clusters/shop", scope: Scope{Cluster: "shop"}, rest: "/", ok: true},
		{path: "/clusters/*/api/v1/pods", scope: Scope{Cluster: "*"}, rest: "/api/v1/pods", ok: true},
		{path: "/targets/east/clusters/*/api", scope: Scope{Cluster: "*", Target: "east"}, rest: "/api", ok: true},
		{path: "/targets/east/clusters/shop/api", scope: Scope{Cluster: "shop", Target: "east"}, rest: "/api", ok: true},
		{path: "/readyz", rest: "/readyz"},
		{path: "/clustersx/shop", rest: "/clustersx/shop"},
		{path: "/clusters//api", ok: true, err: `logical cluster ""`},
		{path: "/clusters/../api", ok: true, err: `logical cluster ".."`},
		{path: "/clusters/Shop/api", ok: true, err: `logical cluster "Shop"`},
		{path: "/clusters/system:x/api", ok: true, err: `logical cluster "system:x"`},
		{path: "/clusters/a_b/api", ok: true, err: `logical cluster "a_b"`},
		{path: "/clusters/" + strings.Repeat("a", 64) + "/api", ok: true, err: "logical cluster"},
		{path: "/targets/east/api", ok: true, err: "must be followed by /clusters/"},
		{path: "/targets/*/clusters/shop/api", ok: true, err: `physical cluster "*"`},
	} {
		t.Run(tc.path, func(t *testing.T) {
			s, rest, ok, err := Cut(tc.path)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			if ok != tc.ok {
				t.Fatalf("ok %v, want %v", ok, tc.ok)
			}
			if err == nil && (s != tc.scope || rest != tc.rest) {
				t.Errorf("got %+v and %q, want %+v and %q", s, rest, tc.scope, tc.rest)
			}
		})
	}
}

func FuzzCutRoundTrips(f *testing.F) {
	for _, p := range []string{"/clusters/a/b", "/targets/t/clusters/*/api", "/clusters/../x", "/", ""} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		s, rest, ok, err := Cut(path)
		if !ok || err != nil {
			return
		}
		if s.Cluster != Wildcard && ValidateName(s.Cluster.String()) != "" {
			t.Fatalf("%q gives the invalid logical cluster %q", path, s.Cluster)
		}
		again, rest2, ok, err := Cut(s.Path() + rest)
		if !ok || err != nil || again != s || rest2 != rest {
			t.Fatalf("%q: %+v %q becomes %+v %q (%v)", path, s, rest, again, rest2, err)
		}
	})
}

type recorder struct{ path string }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.path = req.URL.Path
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestRoundTripperTakesTheScopeFromTheContext(t *testing.T) {
	r := &recorder{}
	rt := NewRoundTripper(r)
	req, err := http.NewRequestWithContext(With(t.Context(), Scope{Cluster: "shop", Target: "east"}), http.MethodGet, "https://h/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	if want := "/targets/east/clusters/shop/api/v1/pods"; r.path != want {
		t.Errorf("asked for %s, want %s", r.path, want)
	}
}

func TestRoundTripperFailsWithoutALogicalCluster(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"nothing":     t.Context(),
		"target only": WithTarget(t.Context(), "east"),
		"empty name":  WithCluster(t.Context(), ""),
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://h/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewRoundTripper(&recorder{}).RoundTrip(req); !errors.Is(err, ErrNoCluster) {
			t.Errorf("%s: error %v, want %v", name, err, ErrNoCluster)
		}
	}
}
