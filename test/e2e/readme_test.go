package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
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
	if _, err := os.Stat(filepath.Join(process.Root(), ".quickstart")); !errors.Is(err, os.ErrNotExist) {
		t.Skip("there is a quickstart in .quickstart already: remove it with make quickstart-down")
	}
	readme, err := os.ReadFile(filepath.Join(process.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlock.FindAllSubmatch(readme, -1)
	if len(blocks) < 3 || !bytes.Contains(blocks[0][1], []byte("make quickstart")) {
		t.Fatal("README.md does not begin with make quickstart in a block of ```sh")
	}

	first := shell(context.Background(), string(blocks[0][1]))
	output := &syncBuffer{}
	first.Stdout, first.Stderr = output, output
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	defer func() {
		down := shell(context.Background(), "make quickstart-down")
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("make quickstart-down: %v\n%s", err, out)
		}
	}()
	eventually(t, 10*time.Minute, func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("make quickstart ended: %v\n%s", err, output.String())
		default:
		}
		if !strings.Contains(output.String(), "Ready after ") {
			return errors.New("the quickstart is not ready:\n" + output.String())
		}
		return nil
	})
	var rest strings.Builder // one shell: an export of one block holds in the next
	for _, block := range blocks[1:] {
		rest.Write(block[1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	typed := shell(ctx, "set -x\n"+rest.String())
	typed.WaitDelay = time.Second
	if out, err := typed.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("make quickstart did not end well: %v\n%s", err, output.String())
		}
	case <-time.After(30 * time.Second):
		t.Error("make quickstart still runs after make quickstart-down")
	}
	if _, err := os.Stat(filepath.Join(process.Root(), ".quickstart")); !errors.Is(err, os.ErrNotExist) {
		t.Error("make quickstart-down left .quickstart")
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

func shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = process.Root()
	return cmd
}
