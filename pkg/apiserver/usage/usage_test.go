package usage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// ask has u count a request.
func ask(t *testing.T, u *Usage, c logicalcluster.Name, who user.Info) {
	t.Helper()
	served := false
	ctx := request.WithUser(scope.WithCluster(context.Background(), c), who)
	u.With(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/api", nil))
	if !served {
		t.Fatal("the request was not served")
	}
}

// counted are the requests in metrics, by name.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "atoll_logical_cluster_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			all[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return all
}

func TestRequestsAreCountedByLogicalClusterUpToABound(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := New()
	u.now = func() time.Time { return now }
	ann := &user.DefaultInfo{Name: "ann"}

	for range 3 {
		ask(t, u, "shop", ann)
	}
	ask(t, u, "shop", &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	ask(t, u, scope.Wildcard, ann)
	for i := range 3 * mostNamed {
		ask(t, u, logicalcluster.Name(fmt.Sprintf("c%d", i)), ann)
	}
	got := counted(t)
	if len(got) != mostNamed+1 || got["shop"] != 3 || got["c0"] != 1 || got[others] != 2*mostNamed+1 {
		t.Errorf("%d names; shop %v, c0 %v, others %v", len(got), got["shop"], got["c0"], got[others])
	}

	now = now.Add(idleTimeout)
	ask(t, u, "shop", ann)
	now = now.Add(time.Minute)
	ask(t, u, "late", ann)
	got = counted(t)
	if len(got) != 3 || got["shop"] != 4 || got["late"] != 1 {
		t.Errorf("after a while: %v, want shop, late and others", got)
	}
	for name := range got {
		if strings.HasPrefix(name, "c") {
			t.Errorf("%s is idle and still named", name)
		}
	}
}
