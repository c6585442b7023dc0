package controllers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// TestARestartWritesNothingNeedless starts a server a second time on what the
// first one left complete: all that its controllers write is for what is new.
func TestARestartWritesNothingNeedless(t *testing.T) {
	const clusters = 5
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	var last context.Context
	for n := range clusters {
		last = s.NewCluster(t, fmt.Sprint("restart-", n))
		makeNamespace(t, s, last, "web")
		server.Eventually(t, waitTimeout, "the namespace is filled", func() error { return filled(s, last, "web") })
	}
	before, usage := revisionAtRest(t, s), reported(t, s)
	s.Stop(t)

	s = server.StartIn(t, dir)
	makeNamespace(t, s, last, "new")
	server.Eventually(t, waitTimeout, "a new namespace is filled", func() error { return filled(s, last, "new") })
	settled(t, s, last)
	server.Eventually(t, waitTimeout, "every logical cluster shows where it is served now", func() error { return moved(t, s) })
	// The namespace, its account and root CA; an object that came and went; and
	// the URL of each logical cluster and of root, as the port is another. What each uses is
	// said at the start, once, if that was not said before.
	wrote, said := revisionAtRest(t, s)-before, 0
	for name, at := range reported(t, s) {
		if !at.Equal(usage[name]) {
			said++
		}
	}
	if want := 3 + 2 + clusters + 1 + said; wrote != want {
		t.Errorf("%d writes, want %d", wrote, want)
	}
}

// reported is when it was said what each logical cluster uses; nil if it was not.
func reported(t *testing.T, s *server.Server) map[string]*metav1.Time {
	t.Helper()
	list, err := s.Atoll.TenancyV1alpha1().LogicalClusters().List(inRoot(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]*metav1.Time{}
	for _, lc := range list.Items {
		at[lc.Name] = nil
		if lc.Status.Usage != nil {
			at[lc.Name] = &lc.Status.Usage.ObservedTime
		}
	}
	return at
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
