package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	// Path of the binary and its arguments.
	Path string
	Args []string
	// Log is the file that takes its output, over all restarts.
	Log string
	// Ready is what it prints once it can be used.
	Ready string
}

// Process is a Spec that runs, or ran.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 20 * time.Second
)

// Start runs spec and waits until it is ready.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	p := &Process{spec: spec}
	return p, p.Start(ctx)
}

// Start runs a process that ended again.
func (p *Process) Start(ctx context.Context) error {
	log, err := os.OpenFile(p.spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("finding the end of the log: %w", err)
	}
	p.cmd = exec.Command(p.spec.Path, p.spec.Args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test, which stops it in order
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.spec.Path, err)
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		p.err = cmd.Wait()
	}(p.cmd, p.done)
	if err := p.awaitReady(ctx, from); err != nil {
		p.Kill()
		return err
	}
	return nil
}

func (p *Process) awaitReady(ctx context.Context, from int64) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		log, err := os.ReadFile(p.spec.Log)
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		fresh := log[min(from, int64(len(log))):]
		if bytes.Contains(fresh, []byte(p.spec.Ready)) {
			return nil
		}
		select {
		case <-p.done:
			if log, err := os.ReadFile(p.spec.Log); err == nil { // with its last words
				fresh = log[min(from, int64(len(log))):]
			}
			return fmt.Errorf("%s ended before it was ready (%v):\n%s", p.spec.Path, p.err, tail(fresh))
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time:\n%s", p.spec.Path, tail(fresh))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop asks the process to end and reports how that went. The log of one that
// does not end has its stacks.
func (p *Process) Stop() error {
	if !p.Running() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("asking %s to end: %w", p.spec.Path, err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("%s did not end well: %w", p.spec.Path, p.err)
		}
		return nil
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // a Go program writes what it waits for into its log
		select {
		case <-p.done:
		case <-time.After(time.Second):
			p.Kill()
		}
		return fmt.Errorf("%s did not end within %s", p.spec.Path, stopTimeout)
	}
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Freeze makes the process unreachable: it keeps its connections and answers nothing.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Args are the arguments that it was started with.
func (p *Process) Args() []string { return slices.Clone(p.spec.Args) }

// PID is the number of the process that runs, or ran last.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogTail is the end of the log, for a failed test.
func (p *Process) LogTail() string {
	log, err := os.ReadFile(p.spec.Log)
	if err != nil {
		return err.Error()
	}
	return string(tail(log))
}

func tail(log []byte) []byte {
	const enough = 4 << 10
	return log[max(0, len(log)-enough):]
}

// Ended waits for the process to end on its own; err is how it ended, nil if well.
func (p *Process) Ended(timeout time.Duration) (err error, ended bool) { //nolint:revive // err is the answer, not a failure
	select {
	case <-p.done:
		return p.err, true
	case <-time.After(timeout):
		return nil, false
	}
}
