package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestNothingOfAMemberListensOnANetwork(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("what listens is read from /proc/self/net/tcp, which is not there")
	}
	before := listening(t)
	s := start(t, t.TempDir())
	for at := range listening(t) {
		if !before[at] {
			t.Errorf("somebody else's process may connect to %s", at)
		}
	}
	put(t, s, "a")
}

func TestAMemberStartsAgainWithItsDataWhereverItsSocketsAre(t *testing.T) {
	for name, dir := range map[string]string{
		"in the data directory":           t.TempDir(),
		"the path is too long for a name": filepath.Join(t.TempDir(), strings.Repeat("d", maxSocketPath)),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, dir)
			put(t, s, "a")
			// What a crash leaves behind.
			s.Stop()
			if s.tmpDir == "" {
				for _, socket := range []string{clientSocket, peerSocket} {
					if err := os.WriteFile(filepath.Join(dir, socket), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := get(t, start(t, dir), "a"); got != "a" {
				t.Errorf("a is %q after the restart", got)
			}
		})
	}
}

func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func client(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(t *testing.T, s *Server, key string) {
	t.Helper()
	if _, err := client(t, s).Put(t.Context(), key, key); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Server, key string) string {
	t.Helper()
	r, err := client(t, s).Get(t.Context(), key)
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	return string(r.Kvs[0].Value)
}

// listening are the addresses at which this process listens with TCP.
func listening(t *testing.T) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", f.Name())); err == nil && strings.HasPrefix(target, "socket:[") {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	out := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		content, err := os.ReadFile(table)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(content), "\n") {
			const local, state, inode, listens = 1, 3, 9, "0A"
			if fields := strings.Fields(line); len(fields) > inode && fields[state] == listens && own[fields[inode]] {
				out[fields[local]] = true
			}
		}
	}
	return out
}
