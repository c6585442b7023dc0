//go:build linux

package volumecopies

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/pkg/volume/content"
	"github.com/atoll-dev/atoll/pkg/volume/tree"
)

// end is a listener with one end of a copy behind it, and how to connect to it.
func end(t *testing.T, dir string, f func(context.Context, tree.Volume, net.Listener)) func(context.Context) (net.Conn, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx, tree.Volume{Root: root, Claim: "uid", MaxBytes: 64 << 20}, listener)
	}()
	t.Cleanup(func() { cancel(); <-done; root.Close() })
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}
}

// Both ends are the real ones: a server stops in the middle, another one waits until the pod is free, and then all is there.
func TestDataAreCopiedByWhoeverTriesNext(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	if err := os.WriteFile(filepath.Join(from, "table"), data, 0o640); err != nil {
		t.Fatal(err)
	}
	source := end(t, from, func(ctx context.Context, v tree.Volume, l net.Listener) { _ = v.Send(ctx, l, func(error) {}) })
	sums := make(chan content.Sum, 1)
	filler := end(t, to, func(ctx context.Context, v tree.Volume, l net.Listener) {
		if sum, err := v.Receive(ctx, l, func(error) {}); err == nil {
			sums <- sum
		}
	})
	attempt := func(ctx context.Context, limit int64) error {
		conn, err := filler(ctx)
		if err != nil {
			return err
		}
		return (&passing{filler: conn, limit: limit, source: source, report: func(progress) {}}).run(ctx)
	}
	if err := attempt(t.Context(), 1<<20); err == nil {
		t.Fatal("VOID: an attempt that is cut says that all is there")
	}
	select {
	case sum := <-sums:
		t.Fatalf("half of the data is taken for all: %+v", sum)
	default:
	}
	if err := attempt(t.Context(), 64<<20); err != nil {
		t.Fatal(err)
	}
	sum := <-sums
	if diff := cmp.Diff(content.Sum{Digest: sum.Digest, Entries: 2, Bytes: int64(len(data))}, sum); diff != "" {
		t.Errorf("the sum (-want +got):\n%s", diff)
	}
	if got, err := os.ReadFile(filepath.Join(to, "table")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes are there, error %v", len(got), err)
	}
}

// Two servers do not know of each other: the volume is filled by one, and the other one is not taken before.
func TestTwoServersFillAVolumeOnce(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("fedcba9876543210"), 1<<20)
	if err := os.WriteFile(filepath.Join(from, "table"), data, 0o640); err != nil {
		t.Fatal(err)
	}
	source := end(t, from, func(ctx context.Context, v tree.Volume, l net.Listener) { _ = v.Send(ctx, l, func(error) {}) })
	sums := make(chan content.Sum, 2)
	filler := end(t, to, func(ctx context.Context, v tree.Volume, l net.Listener) {
		defer l.Close() // its process ends
		if sum, err := v.Receive(ctx, l, func(error) {}); err == nil {
			sums <- sum
		}
	})
	began, results := make(chan struct{}, 2), make(chan error, 2)
	hold := make(chan struct{})
	for range 2 {
		go func() {
			conn, err := filler(t.Context())
			if err == nil {
				err = (&passing{filler: conn, limit: 64 << 20, report: func(progress) {}, source: func(ctx context.Context) (net.Conn, error) {
					began <- struct{}{}
					<-hold
					return source(ctx)
				}}).run(t.Context())
			}
			results <- err
		}()
	}
	<-began
	close(hold)
	if first, second := <-results, <-results; (first == nil) == (second == nil) {
		t.Errorf("one ends with %v, the other one with %v", first, second)
	}
	if got, err := os.ReadFile(filepath.Join(to, "table")); err != nil || !bytes.Equal(got, data) || len(sums) != 1 || len(began) != 0 {
		t.Errorf("%d bytes are there and %d sums, %d began after, error %v", len(got), len(sums), len(began), err)
	}
}
