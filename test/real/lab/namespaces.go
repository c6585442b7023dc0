//go:build linux

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// settings of the kernel that a kubelet writes and that belong to no namespace.
var settings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// private are directories in which programs of a node leave things at fixed places.
var private = []string{"/run", "/var/lib", "/var/log"}

// enter prepares the namespaces in which this process is the first one.
func enter(dir string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is set, but this is no process that the tests started: unset it", insideVariable)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, path := range private {
		if strings.HasPrefix(dir, path+"/") {
			return fmt.Errorf("the directory for temporary files, %s, must not be in %s: set TMPDIR", dir, path)
		}
		if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("hiding %s: %w", path, err)
		}
	}
	for _, s := range settings {
		if err := shadow(filepath.Join("/proc/sys", s), filepath.Join(dir, "sysctl", s)); err != nil {
			return fmt.Errorf("keeping the setting %s: %w", s, err)
		}
	}
	return run("ip", "link", "set", "lo", "up")
}

// shadow puts a file with the same content in the place of a setting: who writes it
// changes the file.
func shadow(setting, file string) error {
	content, err := os.ReadFile(setting)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	return syscall.Mount(file, setting, "", syscall.MS_BIND, "")
}
