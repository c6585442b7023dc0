package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// TestARestartWritesNothingNeedless starts a server a second time on what the
// first one left complete: all that its controllers write is for what is new.
func TestARestartWritesNothingNeedless(t *testing.T) {
	const clusters = 5
	s := server.StartIn(t, t.TempDir())
	var last context.Context
	for n := range clusters {
		last = s.NewCluster(t, fmt.Sprint("restart-", n))
		makeNamespace(t, s, last, "web")
		server.Eventually(t, waitTimeout, "the namespace is filled", func() error { return filled(s, last, "web") })
	}
	revisionAtRest(t, s)
	s.Stop(t)
	before, _ := writtenAfter(t, s, 0)

	s = server.StartIn(t, s.Dir)
	makeNamespace(t, s, last, "new")
	server.Eventually(t, waitTimeout, "a new namespace is filled", func() error { return filled(s, last, "new") })
	settled(t, s, last)
	server.Eventually(t, waitTimeout, "every logical cluster shows where it is served now", func() error { return moved(t, s) })
	revisionAtRest(t, s)
	s.Stop(t)
	_, events := writtenAfter(t, s, before)

	// The namespace, its account and root CA; and an object that came and went.
	want := map[string]int{"/namespaces/restart-4": 1, "/serviceaccounts/restart-4/new": 1, "/configmaps/restart-4/new": 1, "/configmaps/restart-4/default": 2}
	for n := range clusters { // the Service "kubernetes" leads to where the server is now
		want[fmt.Sprintf("/services/specs/restart-%d/default", n)] = 1
	}
	addressed, said := 0, map[string]int{}
	for _, w := range events {
		parent := path.Dir(strings.TrimPrefix(string(w.Kv.Key), "/registry"))
		if parent != "/logicalclusters/root" {
			if want[parent]--; want[parent] < 0 {
				t.Errorf("%s of %s is needless: %s, before %s", w.Type, w.Kv.Key, w.Kv.Value, w.PrevKv)
			}
			continue
		}
		var was, is tenancy.LogicalCluster
		if err := errors.Join(json.Unmarshal(w.PrevKv.Value, &was), json.Unmarshal(w.Kv.Value, &is)); err != nil {
			t.Fatalf("%s %s: %v", w.Type, w.Kv.Key, err)
		}
		// The URL of each logical cluster and of root, as the port is another. What each uses
		// is said at the start, once, if that was not said before.
		moved, uses := was.Status.URL != is.Status.URL, !equality.Semantic.DeepEqual(was.Status.Usage, is.Status.Usage)
		if moved {
			addressed++
		}
		if uses {
			said[is.Name]++
		}
		if !moved && !uses || said[is.Name] > 1 {
			t.Errorf("a write of logical cluster %s is needless: %s, before %s", is.Name, w.Kv.Value, w.PrevKv.Value)
		}
	}
	for key, left := range want {
		if left > 0 {
			t.Errorf("%d writes of %s are missing", left, key)
		}
	}
	if addressed != clusters+1 {
		t.Errorf("%d URLs were written, want one of each logical cluster", addressed)
	}
}

// writtenAfter opens the database of a server that has ended. It returns its revision, and
// what was written after another one with what was there before.
func writtenAfter(t *testing.T, s *server.Server, revision int64) (last int64, events []*clientv3.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	member, err := etcd.Start(ctx, etcd.Config{Dir: filepath.Join(s.Dir, "etcd"), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer member.Stop()
	db, err := clientv3.New(clientv3.Config{Endpoints: []string{member.Endpoint}, Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	now, err := db.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	last = now.Header.Revision
	if revision == 0 {
		return last, nil
	}
	for r := range db.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(revision+1), clientv3.WithPrevKV()) {
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		events = append(events, r.Events...)
		if n := len(events); n > 0 && events[n-1].Kv.ModRevision >= last {
			return last, events
		}
	}
	t.Fatalf("what was written from revision %d to %d did not come within %s", revision, last, waitTimeout)
	return 0, nil
}

func filled(s *server.Server, ctx context.Context, namespace string) error {
	_, account := s.Kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	_, rootCA := s.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return errors.Join(account, rootCA)
}

func moved(t *testing.T, s *server.Server) error {
	list, err := s.Atoll.TenancyV1alpha1().LogicalClusters().List(inRoot(t), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, lc := range list.Items {
		if !strings.HasPrefix(lc.Status.URL, s.URL+"/") {
			return fmt.Errorf("%s is at %s", lc.Name, lc.Status.URL)
		}
	}
	return nil
}

// revisionAtRest is the revision once nothing was written for a second: controllers
// of the first server may be late on a busy machine.
func revisionAtRest(t *testing.T, s *server.Server) int {
	t.Helper()
	last, since := revision(t, s), time.Now()
	server.Eventually(t, waitTimeout, "nothing is written any more", func() error {
		if now := revision(t, s); now != last {
			last, since = now, time.Now()
		}
		if rest := time.Since(since); rest < time.Second {
			return fmt.Errorf("at revision %d for %v", last, rest)
		}
		return nil
	})
	return last
}

// revision counts the writes to the database so far.
func revision(t *testing.T, s *server.Server) int {
	t.Helper()
	list, err := s.Kube.CoreV1().Namespaces().List(inRoot(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rv, err := strconv.Atoi(list.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return rv
}
