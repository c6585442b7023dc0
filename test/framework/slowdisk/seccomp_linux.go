package slowdisk

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// argument says that the binary of a test shall become another process: argument, the
// socket of the disk, the path and the arguments of the process.
const argument = "on-a-slow-disk"

func init() { //nolint:gochecknoinits // before anything of the test runs
	const socket, path = 2, 3
	if len(os.Args) <= path || os.Args[1] != argument {
		return
	}
	err := become(os.Args[socket], os.Args[path:])
	fmt.Fprintln(os.Stderr, "starting on a slow disk:", err)
	os.Exit(1)
}

// become has the kernel stop the syncs of this thread, and of whatever it becomes.
func become(socket string, args []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up privileges: %w", err)
	}
	const number = 0 // of the call, in what a filter sees
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("installing a filter: %w", errno)
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("finding the disk: %w", err)
	}
	if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(int(fd)), nil); err != nil {
		return fmt.Errorf("handing the filter over: %w", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil { // the disk hangs up when it has the filter
		return errors.New("the disk answered")
	}
	return syscall.Exec(args[0], args, os.Environ())
}

func filterFrom(c *net.UnixConn) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4)) // one file descriptor
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("%d messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("%d file descriptors: %w", len(fds), err)
	}
	return fds[0], nil
}

// notification and response are those of linux/seccomp.h.
type notification struct {
	id         uint64
	pid, flags uint32
	data       [64]byte
}

type response struct {
	id           uint64
	value        int64
	error, flags int32
}

func receive(fd int) (uint64, error) {
	var n notification
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0, errno
	}
	return n.id, nil
}

// proceed has the kernel do what was asked for. Who asked may have ended.
func proceed(fd int, id uint64) {
	r := response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
}

// Missing says why this machine has no slow disks, if it has none.
func Missing() error {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("this kernel cannot ask about system calls (seccomp user notification): %w", errno)
	}
	return nil
}
