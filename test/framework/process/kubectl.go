package process

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Kubectl is the real kubectl with one kubeconfig.
type Kubectl struct {
	// Kubeconfig is the path; Context, if not empty, the context in it.
	Kubeconfig, Context string
	// Namespace, if not empty, is given to each call.
	Namespace string
	// Program is its name in bin/; kubectl if empty.
	Program string
}

// noCollection has a process that ends soon collect no garbage before that is worth the work:
// kubectl takes two thirds of the time.
var noCollection = []string{"GOGC=off", "GOMEMLIMIT=256MiB"}

// In returns a copy for a namespace.
func (k Kubectl) In(namespace string) Kubectl {
	k.Namespace = namespace
	return k
}

// Command returns the command for args, ready to run.
func (k Kubectl) Command(ctx context.Context, args ...string) *exec.Cmd {
	all := []string{"--kubeconfig", k.Kubeconfig}
	if k.Context != "" {
		all = append(all, "--context", k.Context)
	}
	if k.Namespace != "" {
		all = append(all, "--namespace", k.Namespace)
	}
	cmd := exec.CommandContext(ctx, Binary(cmp.Or(k.Program, "kubectl")), append(all, args...)...)
	cmd.Env = append(os.Environ(), noCollection...)
	cmd.WaitDelay = time.Second
	return cmd
}

// Run returns what kubectl printed; the error holds what it complained about.
func (k Kubectl) Run(ctx context.Context, args ...string) (string, error) {
	return run(k.Command(ctx, args...), args)
}

// Apply applies a manifest.
func (k Kubectl) Apply(ctx context.Context, manifest string, args ...string) (string, error) {
	args = append([]string{"apply", "-f", "-"}, args...)
	cmd := k.Command(ctx, args...)
	cmd.Stdin = strings.NewReader(manifest)
	return run(cmd, args)
}

// Get reads an object, or a list, into out. ok is false if it is not there.
func (k Kubectl) Get(ctx context.Context, out any, args ...string) (ok bool, err error) {
	args = append([]string{"get", "--ignore-not-found", "-o", "json"}, args...)
	printed, err := k.Run(ctx, args...)
	if err != nil {
		return false, err
	}
	if strings.TrimSpace(printed) == "" {
		return false, nil
	}
	if err := json.Unmarshal([]byte(printed), out); err != nil {
		return false, fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return true, nil
}

func run(cmd *exec.Cmd, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(strings.TrimSpace(stderr.String()))
		}
		return stdout.String(), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return stdout.String(), nil
}
