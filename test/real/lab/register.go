//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// register makes a PhysicalCluster and waits until it is Ready.
func (l *Lab) register(ctx context.Context, p *PhysicalCluster) error {
	register := l.registerPush
	if p.Pull {
		register = l.registerPull
	}
	if err := register(ctx, p); err != nil {
		return err
	}
	_, err := l.Root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/"+p.Name)
	return err
}

// registerPush has the server reach it with a kubeconfig.
func (l *Lab) registerPush(ctx context.Context, p *PhysicalCluster) error {
	secret, err := l.Root.Run(ctx, "create", "secret", "generic", p.Name+"-kubeconfig", "--namespace=atoll-system",
		"--from-file=kubeconfig="+p.Kubeconfig, "--dry-run=client", "-o", "yaml")
	if err != nil {
		return err
	}
	if _, err := l.Root.Apply(ctx, secret); err != nil {
		return err
	}
	sample, err := os.ReadFile(filepath.Join(process.Root(), "config", "samples", "physicalcluster.yaml"))
	if err != nil {
		return err
	}
	_, err = l.Root.Apply(ctx, strings.ReplaceAll(string(sample), "NAME", p.Name))
	return err
}

// registerPull starts a syncer on the node: nothing of the server's can connect to it.
func (l *Lab) registerPull(ctx context.Context, p *PhysicalCluster) error {
	if _, err := l.Root.Apply(ctx, fmt.Sprintf("{apiVersion: fleet.atoll.dev/v1alpha1, kind: PhysicalCluster, "+
		"metadata: {name: %[1]s, labels: {topology.kubernetes.io/region: %[1]s}}, spec: {connection: {type: Pull}}}", p.Name)); err != nil {
		return err
	}
	kubeconfig := l.Path(p.Name + "-syncer.kubeconfig")
	if err := l.kubeconfig(kubeconfig, "--syncer", p.Name); err != nil {
		return err
	}
	var err error
	p.Syncer, err = p.node.run(ctx, "syncer", "Syncing", process.Binary("atoll-syncer"),
		"--physical-cluster", p.Name, "--kubeconfig", kubeconfig, "--physical-kubeconfig", p.Kubeconfig, "--health-address", ":8099",
		"--admission-address", p.node.node()+":"+admissionPort)
	return err
}

// admissionPort is where a syncer answers about pods that are made on its physical cluster.
const admissionPort = "9443"

// AdmissionURL is where the API server of a physical cluster asks its syncer about pods, see spec.pods.admission.
func (p *PhysicalCluster) AdmissionURL() string {
	return "https://" + p.node.node() + ":" + admissionPort
}
