package space

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free is what the file system of a directory has left for us, in bytes.
func Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("looking at the file system of %s: %w", dir, err)
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:gosec,unconvert // types differ by platform, neither is negative
}
