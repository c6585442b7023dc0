package slowdisk

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// Disk is what the processes that were started by its Spec write to.
type Disk struct {
	socket   string
	listener *net.UnixListener
	watching sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration
	// stalled is closed when the disk answers again; nil while it does.
	stalled chan struct{}
	syncs   int
	closed  bool
	filters []int
}

// New makes a disk that answers. dir has a socket of it, so its path must be short.
func New(dir string) (*Disk, error) {
	d := &Disk{socket: filepath.Join(dir, "slow.sock")}
	var err error
	if d.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: d.socket, Net: "unix"}); err != nil {
		return nil, fmt.Errorf("listening for processes: %w", err)
	}
	d.watching.Go(d.receive)
	return d, nil
}

// Spec runs what spec says on the disk.
func (d *Disk) Spec(spec process.Spec) (process.Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return spec, fmt.Errorf("finding the binary of the test: %w", err)
	}
	spec.Args = append([]string{argument, d.socket, spec.Path}, spec.Args...)
	spec.Path = self
	return spec, nil
}

// Delay has each further sync last so much longer.
func (d *Disk) Delay(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = by
}

// Stall has each further sync wait until the result is called.
func (d *Disk) Stall() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stalled := make(chan struct{})
	d.stalled = stalled
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stalled = nil
		close(stalled)
	})
}

// Syncs is how many syncs there were.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Close ends it; processes that still run cannot sync any more.
func (d *Disk) Close() {
	_ = d.listener.Close()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.watching.Wait()
	for _, fd := range d.filters {
		_ = unix.Close(fd)
	}
}

// receive takes the filter of each process that starts.
func (d *Disk) receive() {
	for {
		c, err := d.listener.AcceptUnix()
		if err != nil {
			return
		}
		fd, err := filterFrom(c)
		_ = c.Close()
		if err != nil {
			continue // the process says so and ends
		}
		d.mu.Lock()
		d.filters = append(d.filters, fd)
		d.mu.Unlock()
		d.watching.Go(func() { d.watch(fd) })
	}
}

// watch answers the syncs of one process.
func (d *Disk) watch(fd int) {
	const look = 50 // ms
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, look) //nolint:gosec // a file descriptor
		d.mu.Lock()
		closed := d.closed
		d.mu.Unlock()
		if closed || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if ready < 1 {
			continue
		}
		id, err := receive(fd)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
			continue // who asked was ended meanwhile
		}
		if err != nil {
			return // the process has ended
		}
		go d.answer(fd, id)
	}
}

func (d *Disk) answer(fd int, id uint64) {
	d.mu.Lock()
	d.syncs++
	delay, stalled := d.delay, d.stalled
	d.mu.Unlock()
	time.Sleep(delay)
	if stalled != nil {
		<-stalled
	}
	proceed(fd, id)
}
