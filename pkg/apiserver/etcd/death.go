package etcd

import (
	"fmt"
	"io"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// lastWords is the logger of the member. What goes wrong is returned by it, the rest is
// noise of stopping; but an etcd that cannot write its files ends the process from a
// goroutine of its own, with a dump of all others. It ends with a sentence instead:
// what it has acknowledged is on the disk, and nothing can be saved by going on.
func lastWords(to io.Writer, exit func(int)) *zap.Logger {
	last := lastHook{to: to, exit: exit}
	return zap.New(silent{}, zap.WithFatalHook(last), zap.WithPanicHook(last))
}

// silent takes the entries that end the process, and writes none.
type silent struct{}

func (silent) Enabled(l zapcore.Level) bool        { return l >= zapcore.PanicLevel }
func (s silent) With([]zapcore.Field) zapcore.Core { return s }
func (s silent) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, s)
}
func (silent) Write(zapcore.Entry, []zapcore.Field) error { return nil }
func (silent) Sync() error                                { return nil }

// lastHook ends the process.
type lastHook struct {
	to   io.Writer
	exit func(int)
}

// OnWrite implements zapcore.CheckWriteHook.
func (h lastHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	fmt.Fprintln(h.to, sentence(e.Message, fields))
	h.exit(1)
}

// sentence says why the member ends and what to do.
func sentence(message string, fields []zapcore.Field) string {
	var why strings.Builder
	why.WriteString(message)
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			fmt.Fprintf(&why, ": %v", err)
		}
	}
	advice := "start the server again; if it ends again, restore the data directory from a backup"
	switch {
	case strings.Contains(why.String(), syscall.ENOSPC.Error()):
		advice = "the disk of the data directory is full: free some space and start the server again"
	case strings.Contains(why.String(), syscall.EMFILE.Error()):
		advice = "the process has no file descriptor left: raise its limit (ulimit -n, LimitNOFILE) and start the server again"
	}
	return fmt.Sprintf("Error: etcd ended (%s); what was acknowledged is stored; %s", why.String(), advice)
}
