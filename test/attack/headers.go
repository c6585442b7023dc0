package attack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// impostor is who a header shall say that somebody is.
const impostor = "system:impostor"

// believedHeaders are spellings of what says to an aggregated server who asks: to some (CGI,
// WSGI) they are all the same.
var believedHeaders = []string{"X-Remote-User", "X-Remote_User", "X_Remote_User", "x_remote-group", "X-Remote-Extra-Scopes", "X_Remote_Extra_Scopes", "X-Remote-Uid"}

var headers = Attack{
	Name: "an aggregated server hears from nobody who he is, in whatever spelling, but from the server",
	Fence: func(ctx context.Context, w *World) error {
		heard, err := w.heard(ctx, believedHeaders)
		if err == nil && len(heard) > 0 {
			err = fmt.Errorf("it hears %v", heard)
		}
		return err
	},
	// Others come there, in the spelling that they were sent in.
	Control: func(ctx context.Context, w *World) error {
		others := []string{"X-Other-User", "X-Other_User", "X_Other_User"}
		heard, err := w.heard(ctx, others)
		if err == nil && len(heard) != len(others) {
			err = fmt.Errorf("it hears %v", heard)
		}
		return err
	},
}

// heard are those of some headers, sent by a tenant, that an aggregated server gets.
func (w *World) heard(ctx context.Context, names []string) ([]string, error) {
	var mu sync.Mutex
	var got http.Header
	h := startHostile(false, func(rw http.ResponseWriter, req *http.Request) bool {
		if strings.HasPrefix(req.URL.Path, aggregatedPath+"/things") {
			mu.Lock()
			got = req.Header.Clone()
			mu.Unlock()
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"aggregated.example.com/v1","resources":[{"name":"things","kind":"Thing","verbs":["list"]}]}`))
		return true
	})
	defer h.close()
	ctx, err := w.aggregated(ctx, h)
	if err != nil {
		return nil, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return nil, err
	}
	sent := http.Header{}
	for _, name := range names {
		sent[name] = []string{impostor}
	}
	shop, _ := scope.ClusterFrom(ctx)
	config := rest.CopyConfig(who.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return with{next, sent} })
	if err := eventually(ctx, "it is asked", func() error {
		answer, err := ask(ctx, config, http.MethodGet, scope.Scope{Cluster: shop}.Path()+aggregatedPath+"/things", "")
		if err == nil && answer.code != http.StatusOK {
			err = fmt.Errorf("it is answered %d", answer.code)
		}
		return err
	}); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if got == nil {
		return nil, errors.New("the aggregated server was not asked")
	}
	var heard []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if slices.Contains(got[name], impostor) {
			heard = append(heard, name)
		}
	}
	return heard, nil
}

// with sends headers as they are spelled.
type with struct {
	next http.RoundTripper
	sent http.Header
}

// RoundTrip implements http.RoundTripper.
func (w with) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	maps.Copy(req.Header, w.sent)
	return w.next.RoundTrip(req)
}
