package etcd

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
)

func TestAnEtcdThatCannotWriteEndsTheProcessWithASentence(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("write db: %w", syscall.ENOSPC)
	for name, c := range map[string]struct {
		end  func(*zap.Logger)
		want string
	}{
		"a full disk": {func(l *zap.Logger) { l.Fatal("failed to commit tx", zap.Error(full)) },
			"Error: etcd ended (failed to commit tx: write db: no space left on device); what was acknowledged is stored; " +
				"the disk of the data directory is full: free some space and start the server again\n"},
		"no file descriptor": {func(l *zap.Logger) { l.Fatal("failed to save Raft hard state and entries", zap.Error(syscall.EMFILE)) },
			"Error: etcd ended (failed to save Raft hard state and entries: too many open files); what was acknowledged is stored; " +
				"the process has no file descriptor left: raise its limit (ulimit -n, LimitNOFILE) and start the server again\n"},
		"a panic": {func(l *zap.Logger) {
			l.Panic("failed to open database", zap.String("path", "/secret"), zap.Error(syscall.EIO))
		},
			"Error: etcd ended (failed to open database: input/output error); what was acknowledged is stored; " +
				"start the server again; if it ends again, restore the data directory from a backup\n"},
	} {
		var out bytes.Buffer
		code, ended := 0, make(chan struct{})
		go func() { // the process ends there
			defer close(ended)
			defer func() { _ = recover() }()
			c.end(lastWords(&out, func(n int) { code = n; panic("exit") }))
		}()
		<-ended
		if out.String() != c.want || code != 1 {
			t.Errorf("%s: exit code %d and %q", name, code, out.String())
		}
	}
}

func TestWhatEtcdHasToSayOtherwiseIsLeftOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := lastWords(&out, func(int) { t.Error("the process ended") })
	l.Error("stopping", zap.Error(syscall.ENOSPC))
	l.Named("raft").With(zap.Int("term", 2)).Warn("noise")
	if strings.TrimSpace(out.String()) != "" {
		t.Errorf("it wrote %q", out.String())
	}
}
