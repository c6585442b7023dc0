//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// node is the programs of a real node.
type node struct {
	network
	// dir is theirs; pki has the keys that localcluster made, group is the control group.
	dir, pki, group string
	runtime         *process.Process
	kubelet, proxy  *process.Process
}

// start runs the container runtime, with images, and then the kubelet and, once there is a
// Node, kube-proxy: it ends if the addresses of its Node come late.
func (n *node) start(ctx context.Context, images []string, admin process.Kubectl) error {
	if err := makeGroup(n.group); err != nil {
		return err
	}
	if err := n.configure(); err != nil {
		return fmt.Errorf("configuring the node: %w", err)
	}
	var err error
	if n.runtime, err = n.run(ctx, "containerd", "containerd successfully booted", "containerd", "--config", n.file("containerd.toml")); err != nil {
		return err
	}
	for _, image := range images {
		if err := n.load(image); err != nil {
			return err
		}
	}
	localnode := process.Binary("localnode")
	if n.kubelet, err = n.run(ctx, "kubelet", "Started kubelet", localnode, "kubelet", "--config", n.file("kubelet.yaml"),
		"--kubeconfig", n.key("kubelet.kubeconfig"), "--root-dir", n.file("kubelet"), "--cert-dir", n.file("kubelet", "pki"),
		"--hostname-override", n.nodeName(), "--node-ip", n.node()); err != nil {
		return err
	}
	if _, err := admin.Run(ctx, "wait", "--for=create", "--timeout=2m", "node/"+n.nodeName()); err != nil {
		return fmt.Errorf("%w\n%s", err, n.kubelet.LogTail())
	}
	// The controller of cloud providers, or of kube-controller-manager, that gives nodes ranges.
	if _, err := admin.Run(ctx, "patch", "node/"+n.nodeName(), "-p", fmt.Sprintf(`{"spec":{"podCIDR":%[1]q,"podCIDRs":[%[1]q]}}`, n.pods())); err != nil {
		return err
	}
	if n.proxy, err = n.run(ctx, "kube-proxy", "Caches are synced", localnode, "kube-proxy", "--config", n.file("kube-proxy.yaml")); err != nil {
		return err
	}
	if _, err := admin.Run(ctx, "wait", "--for=condition=Ready", "--timeout=2m", "node/"+n.nodeName()); err != nil {
		return fmt.Errorf("%w\n%s", err, n.kubelet.LogTail())
	}
	return nil
}

// run starts a program in the network namespace of the node.
func (n *node) run(ctx context.Context, name, ready string, command ...string) (*process.Process, error) {
	return process.Start(ctx, process.Spec{
		Path: "/usr/bin/nsenter", Args: append([]string{n.inside()}, command...), Log: n.file(name + ".log"), Ready: ready,
	})
}

func (n *node) nodeName() string { return n.name + "-node" }

func (n *node) file(elem ...string) string { return filepath.Join(append([]string{n.dir}, elem...)...) }

func (n *node) key(file string) string { return filepath.Join(n.pki, file) }

// configure writes the configuration of all programs.
func (n *node) configure() error {
	replace := strings.NewReplacer(
		"$DIR", n.dir, "$PKI", n.pki, "$GROUP", n.group, "$NODE", n.nodeName(), "$ADDRESS", n.node(), "$SERVER", n.server(),
		"$PODS", n.pods(), "$CNI", cniDir(), "$PAUSE", pauseImage, "$NAME", n.name)
	errs := []error{os.MkdirAll(n.file("cni"), 0o700)}
	for file, content := range configuration {
		errs = append(errs, os.WriteFile(n.file(file), []byte(replace.Replace(content)), 0o600))
	}
	return errors.Join(errs...)
}
