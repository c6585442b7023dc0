package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// files is how many file descriptors the server has open.
func (d *alone) files(t *testing.T) uint64 {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.server.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return uint64(len(open))
}

// allow says how many the server may have open. The result undoes it.
func (d *alone) allow(t *testing.T, most uint64) (undo func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(d.server.PID(), unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(d.server.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(d.server.PID(), unix.RLIMIT_NOFILE, &before, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// idle opens connections that say nothing.
func (d *alone) idle(t *testing.T, many int) {
	t.Helper()
	for range many {
		c, err := net.DialTimeout("tcp", d.address, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// ask asks over a connection of its own whether the server lives.
func (d *alone) ask() error {
	own := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // who answers is not the question
	}}
	answer, err := own.Get("https://" + d.address + "/livez")
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Etcd opens files for its log, and looks through its directories every half minute: it
// ended the process when it could not.
func TestAServerWithoutFileDescriptorsAnswersAndRecovers(t *testing.T) {
	t.Parallel()
	d := startAlone(t, shortDir(t), nil)
	ctx := t.Context()
	for i := range 5 {
		if err := d.write(ctx, fmt.Sprintf("c%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	base := d.files(t)

	// Less than are open: those give way on which nobody has said who he is.
	const idle = 600
	d.idle(t, idle)
	eventually(t, func() error {
		if n := d.files(t); n < base+idle-10 {
			return fmt.Errorf("%d files are open, %d were before", n, base)
		}
		return nil
	})
	undo := d.allow(t, base+200)
	eventually(t, d.ask)
	d.recovers(t, "few")
	if n := d.files(t); n > base+200 {
		t.Errorf("%d files are open, %d may be", n, base+200)
	}
	undo()

	// Less than it needs, for longer than etcd waits until it looks again.
	undo = d.allow(t, base-10)
	refused := 0
	for begin := time.Now(); time.Since(begin) < 40*time.Second; time.Sleep(100 * time.Millisecond) {
		if !d.server.Running() {
			t.Fatal("the server ended")
		}
		err := d.writeOf(ctx, fmt.Sprintf("refused%d", refused), "small")
		var status apierrors.APIStatus
		switch {
		case err == nil && time.Since(begin) > time.Second: // what is known may be that old
			t.Fatal("a write was taken although etcd may open nothing")
		case err == nil:
		case errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage && strings.Contains(status.Status().Message, "file descriptors left: close connections, or raise the limit"):
			refused++
		default:
			t.Fatalf("a write was answered %v", err)
		}
		if _, err := d.kube.CoreV1().ConfigMaps("default").Get(ctx, "c0", metav1.GetOptions{}); err != nil {
			t.Fatalf("a read was answered %v", err)
		}
	}
	t.Logf("%d writes were refused", refused)
	undo()

	d.recovers(t, "after")
	eventually(t, d.ask)
	d.check(t)
	if err := d.server.Stop(); err != nil {
		t.Error(err)
	}
	if err := d.server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	d.check(t)
}
