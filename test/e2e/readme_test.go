package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestEveryCommandOfTheReadmeWorks types what README.md shows, in its order. The
// first block starts the quickstart in a terminal of its own.
func TestEveryCommandOfTheReadmeWorks(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(process.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlock.FindAllSubmatch(readme, -1)
	if len(blocks) < 3 || string(blocks[0][1]) != "make quickstart\n" {
		t.Fatal("README.md does not begin with make quickstart in a block of ```sh")
	}
	removeQuickstart(t)
	q := startQuickstart(t, string(blocks[0][1]))
	var rest strings.Builder // one shell: an export of one block holds in the next
	for _, block := range blocks[1:] {
		rest.Write(block[1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if out, err := shell(ctx, "set -x\n"+rest.String()).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	q.wantEnd(t) // the last command is make quickstart-down
	if _, err := os.Stat(quickstartDir()); !errors.Is(err, os.ErrNotExist) {
		t.Error("make quickstart-down left .quickstart")
	}
}

func TestTheQuickstartStopsOnCtrlCAndResumes(t *testing.T) {
	long(t)
	ctx := context.Background()
	removeQuickstart(t)
	demo := process.Kubectl{Kubeconfig: filepath.Join(quickstartDir(), "demo.kubeconfig"), Namespace: "hello"}

	q := startQuickstart(t, "exec hack/quickstart.sh")
	uid := uidOf(t, demo, "hello")
	must(t)(demo.Run(ctx, "scale", "deployment/hello", "--replicas=2"))
	must(t)(demo.Run(ctx, "rollout", "status", "deployment/hello", "--timeout=3m"))
	if err := syscall.Kill(-q.cmd.Process.Pid, syscall.SIGINT); err != nil { // the terminal asks the whole group
		t.Fatal(err)
	}
	q.wantEnd(t)
	if out, err := demo.Run(ctx, "get", "deployments", "--request-timeout=5s"); err == nil {
		t.Errorf("the server still answers:\n%s", out)
	}

	q = startQuickstart(t, "exec hack/quickstart.sh")
	if err := want("UID of the deployment after the second start", uidOf(t, demo, "hello"), uid); err != nil {
		t.Error(err)
	}
	eventually(t, func() error { return available(demo, "hello", 2) })
	must(t)(shellOutput("make quickstart-down"))
	q.wantEnd(t)
}

// quickstart is `make quickstart` in a terminal of its own.
type quickstart struct {
	cmd    *exec.Cmd
	output *syncBuffer
	ended  chan error
}

func quickstartDir() string { return filepath.Join(process.Root(), ".quickstart") }

// theQuickstart is held by the test that has the quickstart: there is one of a repository.
var theQuickstart sync.Mutex

// removeQuickstart waits until no other test has a quickstart, and sees to it that
// there is none after the test; the test is skipped if somebody else has one.
func removeQuickstart(t *testing.T) {
	t.Helper()
	theQuickstart.Lock()
	t.Cleanup(theQuickstart.Unlock)
	if _, err := os.Stat(quickstartDir()); !errors.Is(err, os.ErrNotExist) {
		t.Skip("there is a quickstart in .quickstart already: remove it with make quickstart-down")
	}
	t.Cleanup(func() { must(t)(shellOutput("make quickstart-down")) })
}

// startQuickstart runs a command and returns when it says that it is ready.
func startQuickstart(t *testing.T, command string) *quickstart {
	t.Helper()
	q := &quickstart{cmd: shell(context.Background(), command), output: &syncBuffer{}, ended: make(chan error, 1)}
	q.cmd.Stdout, q.cmd.Stderr = q.output, q.output
	q.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Where the tests run in the background SIGINT is ignored, and a shell that begins with that cannot
	// notice one. What is noticed here is not ignored by what is started.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	err := q.cmd.Start()
	signal.Stop(interrupts)
	if err != nil {
		t.Fatal(err)
	}
	go func() { q.ended <- q.cmd.Wait() }()
	eventually(t, func() error {
		select {
		case err := <-q.ended:
			t.Fatalf("make quickstart ended: %v\n%s", err, q.output)
		default:
		}
		if !strings.Contains(q.output.String(), "Ready after ") {
			return fmt.Errorf("the quickstart is not ready:\n%s", q.output)
		}
		return nil
	})
	return q
}

// wantEnd wants the quickstart to end soon, and well.
func (q *quickstart) wantEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-q.ended:
		if err != nil {
			t.Errorf("make quickstart did not end well: %v\n%s", err, q.output)
		}
	case <-time.After(time.Minute):
		t.Errorf("make quickstart still runs:\n%s", q.output)
	}
}

// syncBuffer is a bytes.Buffer that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// shell runs a script at the root of the repository.
func shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = process.Root()
	cmd.WaitDelay = time.Second
	return cmd
}

func shellOutput(script string) (string, error) {
	out, err := shell(context.Background(), script).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return string(out), err
}
