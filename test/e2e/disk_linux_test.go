package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	diskMiB = 640
	mib     = 1 << 20
)

// disk is a small file system with a server on it.
type disk struct{ *alone }

// newDisk mounts a file system of its own; that takes root.
func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := shortDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", diskMiB)); err != nil {
		t.Skipf("this machine does not let root mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { // after the server has ended
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return &disk{startAlone(t, dir, nil)}
}

func (d *disk) free(t *testing.T) uint64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &s); err != nil {
		t.Fatal(err)
	}
	return s.Bavail * uint64(s.Bsize)
}

// fill leaves only so many MiB, or nothing at all.
func (d *disk) fill(t *testing.T, name string, leave uint64) {
	t.Helper()
	file, err := os.Create(filepath.Join(d.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for zeroes := make([]byte, mib); d.free(t) > leave*mib; {
		if _, err := file.Write(zeroes); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// refusedForRoom wants a refusal that names the cause and the way out.
func refusedForRoom(t *testing.T, what string, err error) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusInsufficientStorage ||
		!strings.Contains(status.Status().Message, "free some space there") {
		t.Errorf("%s: %v", what, err)
	}
}

func TestAFullDiskStopsWritesAndNothingElse(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	ctx := t.Context()
	d.fill(t, "filler", 230)
	var last error
	for i := 0; last == nil; i++ {
		if i == 200 {
			t.Fatalf("%d large writes were taken, %d MiB are left", i, d.free(t)/mib)
		}
		last = d.write(ctx, fmt.Sprintf("c%d", i))
	}
	refusedForRoom(t, "a write", last)
	t.Logf("%d large writes were acknowledged, %d MiB are left", len(d.acknowledged), d.free(t)/mib)
	d.check(t)
	if err := d.kube.CoreV1().ConfigMaps("default").Delete(ctx, "c0", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting while there is little room: %v", err)
	} else {
		delete(d.acknowledged, "c0")
	}
	if _, err := d.kube.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		t.Errorf("the server serves reads, and is not ready: %v", err)
	}

	d.fill(t, "rest", 16) // for what etcd is writing at this moment
	refusedForRoom(t, "a write without any room", d.write(ctx, "none"))
	refusedForRoom(t, "a deletion without any room", d.kube.CoreV1().ConfigMaps("default").Delete(ctx, "c1", metav1.DeleteOptions{}))
	d.check(t)

	for _, name := range []string{"rest", "filler"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	d.recovers(t, "after")
	d.check(t)
	if err := d.server.Stop(); err != nil {
		t.Error(err)
	}
	if err := d.server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	d.check(t)
}

// Somebody else may fill a disk at once. What goes around the server, straight to etcd,
// is stopped by nobody: that is how it dies here.
func TestAnEtcdThatDiesOfAFullDiskEndsTheServerWithASentence(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	ctx := t.Context()
	for i := range 10 {
		if err := d.write(ctx, fmt.Sprintf("c%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	d.fill(t, "filler", 0)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(d.dir, "atoll", "etcd", "client.sock")}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for i := 0; d.server.Running() && i < 500; i++ {
		put, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, _ = client.Put(put, fmt.Sprintf("/elsewhere/%d", i), strings.Repeat("x", mib))
		cancel()
	}
	exit, ended := d.server.Ended(30 * time.Second)
	if !ended || exit == nil {
		t.Fatalf("the server did not end with an error: %v", exit)
	}
	log, err := os.Open(d.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	text, err := io.ReadAll(log)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("Error: etcd ended (")) || !bytes.Contains(text, []byte("free some space and start the server again")) {
		t.Errorf("it does not say why it ended: %s", d.server.LogTail())
	}
	if bytes.Contains(text, []byte("\ngoroutine ")) {
		t.Errorf("it shows its goroutines: %s", d.server.LogTail())
	}
	if err := os.Remove(filepath.Join(d.dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := d.server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	d.check(t)
}
