//go:build linux

package real

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal starts a command on a terminal of its own, and returns the other end.
func terminal(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return ours
}

// until reads until something is said; with nothing to wait for, until the end.
func until(from io.Reader, what string) (string, error) {
	var said strings.Builder
	buffer := make([]byte, 1<<10)
	for {
		n, err := from.Read(buffer)
		said.Write(buffer[:n])
		if what != "" && strings.Contains(said.String(), what) {
			return said.String(), nil
		}
		if err != nil { // EIO, if nobody has the terminal any more
			return said.String(), err
		}
	}
}
