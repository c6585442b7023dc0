//go:build linux

package lab

import (
	"fmt"
	"os/exec"
	"strings"
)

// run runs a command; the error holds what it complained about.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
