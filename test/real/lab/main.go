//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// insideVariable holds, in the process that runs the tests, the directory of the lab.
const insideVariable = "ATOLL_REAL_LAB"

// Main is the TestMain of tests with real pods: run gets the directory of a lab, in
// namespaces of its own.
func Main(m *testing.M, run func(dir string) int) int {
	if dir := os.Getenv(insideVariable); dir != "" {
		if err := enter(dir); err != nil {
			fmt.Fprintln(os.Stderr, "making the namespaces of the lab:", err)
			return 1
		}
		return run(dir)
	}
	if err := Missing(); err != nil {
		fmt.Println("skipping the tests with real pods:", err)
		return 0
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// outside runs the tests in namespaces and cleans up behind them.
func outside() (code int, err error) {
	removeAbandoned()
	dir, err := os.MkdirTemp("", "atoll-real-")
	if err != nil {
		return 1, err
	}
	before, err := takeStock()
	if err != nil {
		return 1, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// What ends with its parent ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"="+dir, groupVariable+"="+ownGroups())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // Ctrl-C is for this process
	}
	if err := cmd.Run(); err != nil {
		code = 1
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return code, errors.Join(fmt.Errorf("starting the tests in namespaces: %w", err), os.RemoveAll(dir))
		}
	}
	if os.Getenv("ATOLL_E2E_KEEP") != "" {
		fmt.Println("the lab is kept in", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		return 1, err
	}
	return code, errors.Join(removeGroups(ownGroups()), before.compare(dir))
}

// Missing says what the tests need and is not there.
func Missing() error {
	if err := MissingTools(); err != nil {
		return err
	}
	return process.Missing("atoll", "atoll-syncer", "atoll-dns", "atoll-copy", "localcluster", "localnode", "kubectl")
}

// MissingTools is Missing for what is not built from this repository.
func MissingTools() error {
	if os.Geteuid() != 0 {
		return errors.New("they need root")
	}
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		return err
	}
	for _, c := range []struct{ command, pkg string }{
		{"containerd", "containerd"}, {"ctr", "containerd"}, {"containerd-shim-runc-v2", "containerd"},
		{"runc", "runc"}, {"nft", "nftables"}, {"ip", "iproute2"}, {"nsenter", "util-linux"},
	} {
		if _, err := exec.LookPath(c.command); err != nil {
			return fmt.Errorf("there is no %s (package %s); install all that they need with: %s", c.command, c.pkg, install)
		}
	}
	for _, plugin := range []string{"ptp", "host-local", "loopback"} {
		if _, err := os.Stat(cniDir() + "/" + plugin); err != nil {
			return fmt.Errorf("there is no network plugin %s (package containernetworking-plugins); install all that they need with: %s", plugin, install)
		}
	}
	return nil
}

const install = "apt-get install --no-install-recommends containerd runc containernetworking-plugins nftables iproute2"

// cniDir is where the network plugins are: of Debian, or as others install them.
func cniDir() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(dir + "/ptp"); err == nil {
			return dir
		}
	}
	return "/usr/lib/cni"
}
