package space

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Files looks at the file descriptors of the process. It holds the one that it needs for
// that, as there may be no other when it matters.
type Files struct {
	mu  sync.Mutex
	dir *os.File // nil where the system has no such directory
}

// OpenFiles opens what Left reads.
func OpenFiles() (*Files, error) {
	dir, err := os.Open("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return &Files{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking at the file descriptors of the process: %w", err)
	}
	return &Files{dir: dir}, nil
}

// Left is how many file descriptors the process may open, and what its limit is; the limit
// is 0 if nobody knows. What is open beyond a limit that was lowered takes no room below it.
func (f *Files) Left() (left, limit uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dir == nil {
		return 0, 0, nil
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, 0, fmt.Errorf("reading the limit of file descriptors: %w", err)
	}
	if _, err := f.dir.Seek(0, 0); err != nil {
		return 0, 0, fmt.Errorf("looking at the file descriptors of the process: %w", err)
	}
	open, err := f.dir.Readdirnames(-1)
	if err != nil {
		return 0, 0, fmt.Errorf("looking at the file descriptors of the process: %w", err)
	}
	left = files.Cur
	for _, name := range open {
		if n, err := strconv.ParseUint(name, 10, 64); err == nil && n < files.Cur && left > 0 {
			left--
		}
	}
	return left, files.Cur, nil
}

// Close ends it.
func (f *Files) Close() {
	if f.dir != nil {
		_ = f.dir.Close()
	}
}
