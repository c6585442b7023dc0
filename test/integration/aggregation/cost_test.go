package aggregation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestARestartServesAggregatedAPIsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	own := s.NewCluster(t, "shop")
	e := startExtension(t, "restarts.example.org")
	e.register(own, t, s, "127.0.0.1")
	e.trusts(own, t, s.Kube) // and not again
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	if _, err := s.Dynamic.Resource(e.resource()).Create(own, fruit(e, "pear"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-e.added
	before, err := s.Dynamic.Resource(apiServices).Get(own, "v1."+e.group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(t)

	s = server.StartIn(t, dir)
	eventually(t, "requests reach the server", func() error {
		list, err := s.Dynamic.Resource(e.resource()).List(own, metav1.ListOptions{})
		if err == nil && (len(list.Items) != 1 || list.Items[0].GetName() != "pear") {
			return fmt.Errorf("the list is %v", list)
		}
		return err
	})
	awaitFreshness(own, t, s, e.group, "Current", 1)
	after, err := s.Dynamic.Resource(apiServices).Get(own, "v1."+e.group, metav1.GetOptions{})
	if err != nil || after.GetUID() != before.GetUID() {
		t.Errorf("the APIService is %v, %v", after, err)
	}
	if _, err := s.Dynamic.Resource(e.resource()).Create(own, fruit(e, "plum"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// goroutines counts what runs: in the code of aggregated APIs, for connections to
// their servers, and all but what test servers have.
func goroutines(t *testing.T) (ours, connections, all int) {
	t.Helper()
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 2); err != nil {
		t.Fatal(err)
	}
	for stack := range strings.SplitSeq(text.String(), "\n\n") {
		switch {
		case strings.Contains(stack, "net/http/httptest.") || strings.Contains(stack, "net/http.(*conn).serve") || strings.Contains(stack, "http2serverConn)"):
			continue // an end of the other side
		case strings.Contains(stack, "atoll/pkg/apiserver/aggregation."):
			ours++
		case strings.Contains(stack, "http2.(*clientConnReadLoop)") || strings.Contains(stack, "net/http.(*persistConn)"):
			connections++
		}
		all++
	}
	return ours, connections, all
}

// It is not parallel: nothing else runs.
func TestAnIdleAggregatedAPICostsOneConnectionAndNothingThatRuns(t *testing.T) {
	const n = 50
	s := shared(t)
	e := startExtension(t, "idle.example.org")
	var clusters []context.Context
	for i := range n {
		clusters = append(clusters, s.NewCluster(t, fmt.Sprint("idle", i)))
	}
	// The first object of a kind begins its watch cache, for all logical clusters.
	first := s.NewCluster(t, "idle-first")
	ours, connections, all := goroutines(t)
	e.register(first, t, s, "127.0.0.1")
	awaitAvailable(first, t, s, e.group, "True", "Passed")
	if err := s.Dynamic.Resource(apiServices).Delete(first, "v1."+e.group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing runs for the first one", func() error {
		o, c, a := goroutines(t)
		if o > ours || c > connections {
			return fmt.Errorf("%d goroutines more for aggregated APIs, %d for connections", o-ours, c-connections)
		}
		all = a
		return nil
	})
	for _, own := range clusters {
		e.register(own, t, s, "127.0.0.1")
	}
	for _, own := range clusters {
		awaitAvailable(own, t, s, e.group, "True", "Passed")
	}
	eventually(t, "nothing more runs than before", func() error {
		o, c, a := goroutines(t)
		if c-connections < n/2 {
			t.Fatalf("%d connections are seen, of %d", c-connections, n)
		}
		if o != ours || c-connections > n || a-all > n+5 {
			return fmt.Errorf("%d goroutines more for aggregated APIs, %d for %d connections, %d in all", o-ours, c-connections, n, a-all)
		}
		return nil
	})
	for _, own := range clusters {
		if err := s.Dynamic.Resource(apiServices).Delete(own, "v1."+e.group, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the connections go with the APIServices", func() error {
		if o, c, a := goroutines(t); o != ours || c > connections || a-all > 5 {
			return fmt.Errorf("%d goroutines more for aggregated APIs, %d for connections, %d in all", o-ours, c-connections, a-all)
		}
		return nil
	})
}

func TestALogicalClusterHasABoundedNumberOfRequestsWithItsServers(t *testing.T) {
	t.Parallel()
	const limit = 512
	s := shared(t)
	own, other := s.NewCluster(t, "busy"), s.NewCluster(t, "busy-other")
	e, fine := startExtension(t, "busy.example.org"), startExtension(t, "fine.busy.example.org")
	e.register(own, t, s, "127.0.0.1")
	fine.register(other, t, s, "127.0.0.1")
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	awaitAvailable(other, t, s, fine.group, "True", "Passed")
	arrived, stop := make(chan struct{}, 2*limit), make(chan struct{})
	e.answers(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/fruits") {
			arrived <- struct{}{}
			select {
			case <-stop:
			case <-req.Context().Done():
			}
		}
		e.list(w)
	})
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	get := func(cluster, group string, waitTimeout time.Duration) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/clusters/%s/apis/%s/v1/fruits", s.URL, cluster, group), nil)
		if err != nil {
			return 0, err.Error()
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header.Get("Retry-After") + " " + string(body)
	}
	var hanging sync.WaitGroup
	for range limit {
		hanging.Go(func() {
			if code, text := get("busy", e.group, 2*time.Minute); code != http.StatusOK {
				t.Errorf("one of the first %d is answered %d: %s", limit, code, text)
			}
		})
	}
	deadline := time.After(time.Minute)
	for i := range limit {
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("%d of %d requests arrive", i, limit)
		}
	}
	if code, text := get("busy", e.group, 15*time.Second); code != http.StatusTooManyRequests || !strings.HasPrefix(text, "1 ") || !strings.Contains(text, "too many requests of this logical cluster are with aggregated API servers") {
		t.Errorf("one more is answered %d: %s", code, text)
	}
	if code, text := get("busy-other", fine.group, 15*time.Second); code != http.StatusOK {
		t.Errorf("one of another logical cluster is answered %d: %s", code, text)
	}
	close(stop)
	hanging.Wait()
	if code, text := get("busy", e.group, 15*time.Second); code != http.StatusOK {
		t.Errorf("one after them is answered %d: %s", code, text)
	}
}
