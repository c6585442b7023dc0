package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/atoll-dev/atoll/pkg/apiserver/etcd"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

func TestAnEtcdThatIsRestoredUnderAServerIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		between func(t *testing.T, data, saved string)
		want    string // part of the error, nothing for none
	}{
		"restarted":               {func(*testing.T, string, string) {}, ""},
		"restored from a backup":  {func(t *testing.T, data, saved string) { replaceDir(t, data, saved) }, "went back in time"},
		"begun with an empty one": {func(t *testing.T, data, _ string) { replaceDir(t, data, "") }, "went back in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The socket is found again where the path of the directory is short: see etcd.Start.
			dir, err := os.MkdirTemp("", "atoll-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			data, saved := filepath.Join(dir, "etcd"), filepath.Join(dir, "saved")
			run := func() *etcd.Server {
				db, err := etcd.Start(t.Context(), etcd.Config{Dir: data, UnsafeNoSync: true})
				if err != nil {
					t.Fatal(err)
				}
				return db
			}
			db := run()
			db.Stop()
			if err := os.CopyFS(saved, os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
			db = run()
			clients, err := storage.NewClients(storagebackend.TransportConfig{ServerList: []string{db.Endpoint}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = clients.Close() })
			for range 20 {
				if _, err := clients.Client().Put(t.Context(), "/registry/x", "y"); err != nil {
					t.Fatal(err)
				}
			}
			continuity := clients.Continuity()
			if known, err := continuity.Check(t.Context()); !known || err != nil {
				t.Fatal(known, err)
			}
			db.Stop()
			if known, err := continuity.Check(t.Context()); known || err != nil {
				t.Errorf("an etcd that is unavailable: %v, %v", known, err)
			}
			c.between(t, data, saved)
			db = run()
			t.Cleanup(func() { db.Stop() })
			eventually(t, "etcd is back", func() error {
				known, err := continuity.Check(t.Context())
				switch {
				case !known:
					return errors.New("no answer")
				case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Fatalf("%v, want %q", err, c.want)
				}
				return nil
			})
		})
	}
}

// replaceDir puts the copy in the place of data; nothing if there is none.
func replaceDir(t *testing.T, data, saved string) {
	t.Helper()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if saved == "" {
		return
	}
	if err := os.CopyFS(data, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
}
