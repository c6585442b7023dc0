//go:build linux

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	groupRoot     = "/sys/fs/cgroup"
	groupPrefix   = "atoll-real-"
	groupVariable = "ATOLL_REAL_CGROUP"
)

// ownGroups is the prefix of the control groups of this run.
func ownGroups() string { return groupPrefix + strconv.Itoa(os.Getpid()) + "-" }

// makeGroup makes a control group for a node, in each hierarchy where there are several.
// A hierarchy that cannot have one is none that a kubelet uses.
func makeGroup(name string) error {
	if _, err := os.Stat(groupRoot + "/cgroup.controllers"); err == nil {
		// What its children may limit is switched on at the root: where the system has
		// not done that, the kubelet says what it misses.
		return os.MkdirAll(filepath.Join(groupRoot, name), 0o755)
	}
	hierarchies, err := filepath.Glob(groupRoot + "/*/cgroup.procs")
	if err != nil || len(hierarchies) == 0 {
		return fmt.Errorf("there are no control groups in %s (error %w)", groupRoot, err)
	}
	for _, h := range hierarchies {
		parent := filepath.Dir(h)
		if err := os.Mkdir(filepath.Join(parent, name), 0o755); err != nil {
			return fmt.Errorf("making a control group: %w", err)
		}
		// A group of the hierarchy cpuset takes processes once it has these.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(parent, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(parent, name, file), content, 0)
			}
			if err != nil {
				return fmt.Errorf("preparing a control group: %w", err)
			}
		}
	}
	return nil
}

// removeGroups removes the control groups whose names begin so; their processes have ended.
func removeGroups(prefix string) error {
	var tops []string
	for _, pattern := range []string{groupRoot + "/" + prefix + "*", groupRoot + "/*/" + prefix + "*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		tops = append(tops, found...)
	}
	var errs []error
	for _, top := range tops {
		var dirs []string
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, dir := range slices.Backward(dirs) {
			errs = append(errs, removeGroup(dir))
		}
	}
	return errors.Join(errs...)
}

// removeGroup removes one: for a moment after its last process ended it is busy.
func removeGroup(dir string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := syscall.Rmdir(dir)
		if err == nil || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("removing the control group %s: %w", dir, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// removeAbandoned removes the control groups of runs that were killed.
func removeAbandoned() {
	for _, pattern := range []string{groupRoot + "/" + groupPrefix + "*", groupRoot + "/*/" + groupPrefix + "*"} {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), groupPrefix), "-")
			if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
				_ = removeGroups(groupPrefix + pid + "-")
			}
		}
	}
}

// stock is what the tests must leave as it was.
type stock map[string]string

func takeStock() (stock, error) {
	s := stock{}
	for _, file := range append([]string{"net/ipv4/ip_forward"}, settings...) {
		content, err := os.ReadFile(filepath.Join("/proc/sys", file))
		if err != nil {
			return nil, err
		}
		s["/proc/sys/"+file] = string(content)
	}
	routes, err := os.ReadFile("/proc/net/route")
	s["/proc/net/route"] = string(routes)
	return s, err
}

// compare says what is not as it was, and which mounts and processes are left of dir.
func (s stock) compare(dir string) error {
	now, err := takeStock()
	if err != nil {
		return err
	}
	var errs []error
	for file, content := range s {
		if now[file] != content {
			errs = append(errs, fmt.Errorf("%s was %q before the tests and is %q", file, content, now[file]))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), dir) {
		errs = append(errs, errors.New("mounts in "+dir+" are left"))
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, c := range commands {
		if line, err := os.ReadFile(c); err == nil && strings.Contains(string(line), dir) {
			errs = append(errs, fmt.Errorf("a process is left: %s", strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
	return errors.Join(errs...)
}
