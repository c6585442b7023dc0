//go:build linux

package tree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/pkg/volume/content"
)

const limit = 64 << 20

func open(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// full is a volume with everything that is copied.
func full(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	ok(t, os.MkdirAll(at("db/deep/er"), 0o750), os.WriteFile(at("db/wal"), bytes.Repeat([]byte("wal"), 100_000), 0o640), os.WriteFile(at("empty"), nil, 0o600),
		os.WriteFile(at("name\xff\n"), []byte("x"), 0o444), os.Symlink("/etc/shadow", at("out")), os.Symlink("db/wal", at("in")), os.Link(at("db/wal"), at("zz")),
		os.Mkdir(at(lostAndFound), 0o700), os.Mkdir(at("db/closed"), 0o000), os.Chmod(at("db/deep"), 0o755|os.ModeSetgid|os.ModeSticky))
	sparse, err := os.Create(at("sparse"))
	ok(t, err)
	_, err = sparse.WriteAt([]byte("end"), 3<<30)
	ok(t, err, sparse.Truncate(1<<40), sparse.Close(), syscall.Mkfifo(at("pipe"), 0o600))
	for _, name := range []string{"db/wal", "db/deep", "empty", "."} {
		ok(t, os.Chtimes(at(name), time.Unix(1, 0), time.Unix(1_000_000_000, 0)))
	}
	if os.Getuid() == 0 {
		ok(t, os.Lchown(at("out"), 3, 4), os.Chown(at("empty"), 1000, 2000), os.Chown(at("db"), 1000, 2000))
	}
	return dir
}

// listed is what can be seen of the files of a volume.
func listed(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	ok(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		stat := info.Sys().(*syscall.Stat_t)
		what := []string{info.Mode().String(), time.Unix(stat.Mtim.Sec, 0).UTC().String(), string(rune('0' + stat.Nlink)), string(rune(stat.Uid)), string(rune(stat.Gid))}
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			what = []string{what[0], what[3], what[4], target}
		case info.IsDir():
			what[2] = ""
		case info.Mode().IsRegular() && info.Size() < 1<<20:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what = append(what, string(content[:min(len(content), 10)]))
		}
		if info.Mode().Type() != fs.ModeNamedPipe && name != lostAndFound {
			out[name] = strings.Join(what, " ")
		}
		return nil
	}))
	return out
}

// served is a listener with the send or receive of a volume behind it.
func served(t *testing.T, f func(context.Context, net.Listener)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx, listener) }()
	t.Cleanup(func() { cancel(); <-done })
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	ok(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// last passes what from sends on to to, and returns the last thing that to says.
func last(t *testing.T, from, to net.Conn, cut int) content.Said {
	t.Helper()
	says := content.NewListener(to)
	first, err := says.Next()
	if err != nil || first.State != content.Ready {
		t.Fatalf("%+v, error %v", first, err)
	}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			if cut > 0 && n >= cut {
				to.Close()
				return
			}
			cut -= n
			if _, err2 := to.Write(buffer[:n]); err != nil || err2 != nil {
				return
			}
		}
	}()
	for {
		said, err := says.Next()
		if err != nil || said.State == content.Done || said.State == content.Failed {
			return said
		}
	}
}

func TestAVolumeIsCopiedWholeAlsoAfterAnAttemptThatEnded(t *testing.T) {
	from, to := full(t), t.TempDir()
	ok(t, os.Mkdir(filepath.Join(to, lostAndFound), 0o700))
	source := served(t, func(ctx context.Context, l net.Listener) {
		_ = Volume{Root: open(t, from), Claim: "uid", MaxBytes: limit}.Send(ctx, l, func(error) {})
	})
	result := make(chan content.Sum, 1)
	target := served(t, func(ctx context.Context, l net.Listener) {
		if sum, err := (Volume{Root: open(t, to), Claim: "uid", MaxBytes: limit}).Receive(ctx, l, func(error) {}); err == nil {
			result <- sum
		}
	})
	first := dial(t, source)
	last(t, first, dial(t, target), 200_000)
	first.Close()
	if said := last(t, dial(t, source), dial(t, target), 0); said.State != content.Done {
		t.Fatalf("it says %+v", said)
	}
	sum := <-result
	if sum.Entries != 12 || sum.Omitted != 1 || sum.Bytes < 300_000 || sum.Bytes > 500_000 {
		t.Errorf("the sum is %+v", sum)
	}
	if diff := cmp.Diff(listed(t, from), listed(t, to)); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	if info, err := os.Lstat(filepath.Join(to, lostAndFound)); err != nil || !info.IsDir() {
		t.Errorf("what the file system has is gone: %v", err)
	}
	if a, err := os.Stat(filepath.Join(to, "sparse")); err != nil || a.Sys().(*syscall.Stat_t).Blocks > 1000 {
		t.Errorf("holes are written: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(to, "pipe")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pipe is there: %v", err)
	}
}

func TestDataOfAnotherClaimAndMoreThanPermittedAreNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		claim string
		max   int64
		want  string
	}{
		"of another claim": {"other", limit, "another claim"},
		"too much":         {"uid", 1000, "more to copy than maxBytes"},
	} {
		source := served(t, func(ctx context.Context, l net.Listener) {
			_ = Volume{Root: open(t, full(t)), Claim: c.claim, MaxBytes: limit}.Send(ctx, l, func(error) {})
		})
		target := served(t, func(ctx context.Context, l net.Listener) {
			_, _ = Volume{Root: open(t, t.TempDir()), Claim: "uid", MaxBytes: c.max}.Receive(ctx, l, func(error) {})
		})
		if said := last(t, dial(t, source), dial(t, target), 0); said.State != content.Failed || !strings.Contains(said.Message, c.want) {
			t.Errorf("%s: %+v, want %q", name, said, c.want)
		}
	}
}

func TestWhatCannotBeCopiedIsNamed(t *testing.T) {
	for want, make := range map[string]func(dir string) error{
		`"dev/null" is a device`: func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "dev"), 0o700), syscall.Mknod(filepath.Join(dir, "dev/null"), syscall.S_IFCHR|0o600, 1<<8|3))
		},
		`extended attribute "user.a"`: func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "a"), nil, 0o600), syscall.Setxattr(filepath.Join(dir, "a"), "user.a", []byte("b"), 0))
		},
		"more to copy than maxBytes": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a"), bytes.Repeat([]byte{1}, limit+1), 0o600)
		},
	} {
		dir := t.TempDir()
		if err := make(dir); err != nil {
			t.Logf("skipped here (%s): %v", want, err)
			continue
		}
		source := served(t, func(ctx context.Context, l net.Listener) {
			_ = Volume{Root: open(t, dir), Claim: "uid", MaxBytes: limit}.Send(ctx, l, func(error) {})
		})
		target := served(t, func(ctx context.Context, l net.Listener) {
			_, _ = Volume{Root: open(t, t.TempDir()), Claim: "uid", MaxBytes: 2 * limit}.Receive(ctx, l, func(error) {})
		})
		if said := last(t, dial(t, source), dial(t, target), 0); said.State != content.Failed || !strings.Contains(said.Message, want) {
			t.Errorf("%+v, want %q", said, want)
		}
	}
}

// written is a stream that does something when the first bytes of it are written after some.
type written struct {
	after int
	do    func()
}

// Write implements io.Writer.
func (w *written) Write(b []byte) (int, error) {
	if w.after -= len(b); w.after < 0 && w.do != nil {
		w.do()
		w.do = nil
	}
	return len(b), nil
}

func TestAVolumeThatIsUsedWhileItIsReadIsNotCopied(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"nothing":           nil,
		"a file is written": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/big"), []byte("short"), 0o600) },
		"one comes":         func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/new"), nil, 0o600) },
		"one goes":          func(dir string) error { return os.Remove(filepath.Join(dir, "a/big")) },
		"one is replaced":   func(dir string) error { return os.Rename(filepath.Join(dir, "z"), filepath.Join(dir, "a/big")) },
	} {
		dir := t.TempDir()
		ok(t, os.Mkdir(filepath.Join(dir, "a"), 0o700), os.WriteFile(filepath.Join(dir, "a/big"), bytes.Repeat([]byte{1}, 1<<20), 0o600), os.WriteFile(filepath.Join(dir, "z"), nil, 0o600))
		w := &written{after: 200_000}
		if do != nil {
			w.do = func() { ok(t, do(dir)) }
		}
		_, err := Read(t.Context(), open(t, dir), content.NewWriter(w, limit))
		if do == nil && err != nil || do != nil && err == nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// What a check of the file system found is data, also where the new one has such a directory.
func TestWhatWasFoundIsCopied(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		ok(t, os.Mkdir(filepath.Join(dir, lostAndFound), 0o700))
	}
	ok(t, os.WriteFile(filepath.Join(from, lostAndFound, "#1"), []byte("found"), 0o600))
	var sent bytes.Buffer
	w := content.NewWriter(&sent, limit)
	ok(t, w.Begin("uid"))
	_, err := Read(t.Context(), open(t, from), w)
	ok(t, err)
	r := content.NewReader(&sent, limit)
	ok(t, r.Begin("uid"), Clear(open(t, to)))
	if _, err := Write(t.Context(), open(t, to), r); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, lostAndFound, "#1")); err != nil || string(got) != "found" {
		t.Errorf("%q, error %v", got, err)
	}
}

// Whoever sends has links of its own lead out of the volume: what comes after is not written there.
func TestNothingIsWrittenOutsideOfAVolume(t *testing.T) {
	outside, to := t.TempDir(), t.TempDir()
	var sent bytes.Buffer
	w := content.NewWriter(&sent, limit)
	ok(t, w.Begin("uid"), w.Entry(content.Entry{Path: []byte("."), Kind: content.Directory, Mode: 0o700}),
		w.Entry(content.Entry{Path: []byte("a"), Kind: content.Symlink, Target: []byte(outside)}),
		w.Entry(content.Entry{Path: []byte("b"), Kind: content.Same, Target: []byte("a")}))
	_, err := w.End(0)
	ok(t, err)
	// The stream itself has a directory in place of the link only from here on.
	r := content.NewReader(&sent, limit)
	ok(t, r.Begin("uid"))
	if _, err := Write(t.Context(), open(t, to), r); err != nil {
		t.Fatal(err)
	}
	root := open(t, to)
	if _, err := root.Create("a/escaped"); err == nil {
		t.Error("VOID: the root does not hold")
	}
	ok(t, Clear(root))
	if names, err := os.ReadDir(to); err != nil || len(names) > 0 {
		t.Errorf("left: %v, error %v", names, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what a link led to was removed: %v", err)
	}
}
