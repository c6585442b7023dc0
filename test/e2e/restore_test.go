package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// The tests of this file put older data under servers while a syncer runs that is not
// started again. Whether it notices at its watches or loses its Lease first depends on how
// long the server is away: the end is the same.

func TestAPhysicalClusterRestoredFromABackupIsNoticed(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]int{
		"past":  400, // its resource versions are far behind after it
		"level": 0,   // they may have caught up when it answers again
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			physical := theLab.addPush(t, name)
			k := theLab.newCluster(t)
			must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster="+name))
			must(t)(k.Apply(ctx, deployment("app", 2)+deployment("same", 1)))
			h := theLab.homeOf(t, k, "default", physical)
			converges(t, k, h, map[string]int32{"app": 2, "same": 1})

			saved := backUp(t, physical.Process, theLab.path(name, "etcd"))
			must(t)(k.Run(ctx, "create", "namespace", "later"))
			must(t)(k.Run(ctx, "annotate", "namespace", "later", "placement.atoll.dev/cluster="+name))
			must(t)(k.In("later").Apply(ctx, deployment("later", 1)))
			must(t)(k.Apply(ctx, deployment("app", 3)+deployment("made", 1)))
			converges(t, k, h, map[string]int32{"app": 3, "same": 1, "made": 1})
			later := theLab.homeOf(t, k, "later", physical)
			converges(t, k.In("later"), later, map[string]int32{"later": 1})
			write(t, physical.Kubectl, writes)

			restore(t, physical.Process, theLab.path(name, "etcd"), saved)
			must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=4"))
			converges(t, k, h, map[string]int32{"app": 4, "same": 1, "made": 1})
			converges(t, k.In("later"), later, map[string]int32{"later": 1})
			awaitCurrent(t, k, h)
			awaitCurrent(t, k.In("later"), later)
		})
	}
}

func TestAServerRestoredFromABackupIsHeardByItsSyncer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := &lab{dir: theLab.path("restored")}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	physical := l.addPhysical(t, "below")
	l.east, l.west = physical, physical
	listen, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	l.server = start(t, process.Spec{
		Path: process.Binary("atoll"), Args: []string{"start", "--data-dir", l.path("atoll"), "--listen", listen},
		Log: l.path("atoll.log"), Ready: "atoll serves at ",
	})
	l.root = process.Kubectl{Kubeconfig: l.path("atoll", "admin.kubeconfig"), Context: "root"}
	must(t)(l.root.Apply(ctx, "{apiVersion: fleet.atoll.dev/v1alpha1, kind: PhysicalCluster, metadata: {name: below}, spec: {connection: {type: Pull}}}"))
	syncer := start(t, process.Spec{
		Path: process.Binary("atoll-syncer"),
		Args: []string{"--physical-cluster", "below", "--kubeconfig", l.kubeconfig(t, "--syncer", "below"), "--physical-kubeconfig", physical.Kubeconfig},
		Log:  l.path("syncer.log"), Ready: "Syncing",
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the syncer's log:\n%s", syncer.LogTail())
		}
	})
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/below", "--timeout=3m"))
	k := l.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 2)+deployment("same", 1)))
	h := l.homeOf(t, k, "default")
	converges(t, k, h, map[string]int32{"app": 2, "same": 1})

	saved := backUp(t, l.server, l.path("atoll", "etcd"))
	must(t)(k.Apply(ctx, deployment("app", 3)))
	converges(t, k, h, map[string]int32{"app": 3, "same": 1})
	write(t, k, 400)
	restore(t, l.server, l.path("atoll", "etcd"), saved)

	converges(t, k, h, map[string]int32{"app": 2, "same": 1}) // as it was
	must(t)(k.Apply(ctx, deployment("app", 5)+deployment("made", 1)))
	converges(t, k, h, map[string]int32{"app": 5, "same": 1, "made": 1})
	awaitCurrent(t, k, h)
}

// addPhysical starts a physical cluster that ends with the test.
func (l *lab) addPhysical(t *testing.T, name string, flags ...string) *physicalCluster {
	t.Helper()
	p, err := l.startPhysical(context.Background(), name, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// start starts a process that ends with the test.
func start(t *testing.T, s process.Spec) *process.Process {
	t.Helper()
	p, err := process.Start(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// backUp copies the data of a server, which is killed for that.
func backUp(t *testing.T, p *process.Process, data string) (saved string) {
	t.Helper()
	saved = data + "-saved"
	p.Kill()
	copyDir(t, data, saved)
	restart(t, p)
	return saved
}

// restore puts older data under a server.
func restore(t *testing.T, p *process.Process, data, saved string) {
	t.Helper()
	p.Kill()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	copyDir(t, saved, data)
	restart(t, p)
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copying %s: %v\n%s", from, err, out)
	}
}

// write raises the resource version of a server by n writes.
func write(t *testing.T, k process.Kubectl, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	var manifest strings.Builder
	for i := range n {
		fmt.Fprintf(&manifest, "{apiVersion: v1, kind: ConfigMap, metadata: {name: write-%d, namespace: default}}\n---\n", i)
	}
	must(t)(k.Apply(context.Background(), manifest.String(), "--server-side"))
}

// awaitCurrent waits until the pods above are those below, and every Copy is synced
// with an object that is there.
func awaitCurrent(t *testing.T, k process.Kubectl, h home) {
	t.Helper()
	ctx := context.Background()
	pods := func(k process.Kubectl) (map[string]corev1.PodPhase, error) {
		var list corev1.PodList
		_, err := k.Get(ctx, &list, "pods")
		found := map[string]corev1.PodPhase{}
		for _, p := range list.Items {
			found[p.Name] = p.Status.Phase
		}
		return found, err
	}
	eventually(t, func() error {
		above, err := pods(k)
		if err != nil {
			return err
		}
		below, err := pods(h.below())
		if err != nil {
			return err
		}
		if err := want("pods above", above, below); err != nil {
			return err
		}
		var copies placementv1alpha1.CopyList
		if _, err := k.Get(ctx, &copies, "copies"); err != nil {
			return err
		}
		for _, c := range copies.Items {
			if c.Status.State != placementv1alpha1.CopySynced {
				return fmt.Errorf("the Copy %s is %s: %s", c.Name, c.Status.State, c.Status.Message)
			}
			if c.Spec.Object.Kind == "Deployment" {
				if err := want("UID of "+c.Name, string(c.Status.PhysicalUID), uidBelow(h.below(), c.Spec.Object.Name)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func uidBelow(k process.Kubectl, deployment string) string {
	out, err := k.Run(context.Background(), "get", "deployment", deployment, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return err.Error()
	}
	return out
}
