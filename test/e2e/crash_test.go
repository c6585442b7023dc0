package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// The tests of this file disturb processes that they have to themselves.

func TestAServerKilledAtAnyMomentLosesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, "east")
	k := l.newCluster(t)
	must(t)(k.Apply(context.Background(), deployment("first", 1)))
	surviveKills(t, k, l.homeOf(t, k, "default"), l.server)
}

func TestASyncerKilledAtAnyMomentLosesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	north, syncer := theLab.startPull(t, "north")
	theLab.setApart(t, "north")

	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=north"))
	must(t)(k.Apply(ctx, deployment("first", 1)))
	h := theLab.homeOf(t, k, "default", north)
	surviveKills(t, k, h, syncer)
	must(t)(k.Run(ctx, "delete", "deployments", "--all", "--timeout=3m"))
	converges(t, k, h, map[string]int32{})
}

// setApart has a physical cluster that receives nothing get what is pinned there.
func (l *lab) setApart(t *testing.T, name string) {
	t.Helper()
	must(t)(l.root.Run(context.Background(), "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"unschedulable":false,"taints":[{"key":"only","effect":"PreferNoSchedule"}]}}`))
}

// registerPull has a PhysicalCluster, which receives nothing yet, for the syncer of startPull.
func (l *lab) registerPull(t *testing.T, name string) {
	t.Helper()
	must(t)(l.root.Apply(context.Background(), "{apiVersion: fleet.atoll.dev/v1alpha1, kind: PhysicalCluster, metadata: {name: "+name+"}, spec: {unschedulable: true, connection: {type: Pull}}}"))
}

// startPull starts a physical cluster that receives nothing yet, and its syncer, with more
// arguments; both end with the test.
func (l *lab) startPull(t *testing.T, name string, more ...string) (*physicalCluster, *process.Process) {
	t.Helper()
	ctx := context.Background()
	p, err := l.startPhysical(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	l.registerPull(t, name)
	syncer, err := process.Start(ctx, process.Spec{
		Path:  process.Binary("atoll-syncer"),
		Args:  append([]string{"--physical-cluster", name, "--kubeconfig", l.kubeconfig(t, "--syncer", name), "--physical-kubeconfig", p.Kubeconfig}, more...),
		Log:   l.path(name + "-syncer.log"),
		Ready: "Syncing",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the logical clusters are gone: copies hold a physical cluster
		if t.Failed() {
			t.Logf("end of the syncer's log:\n%s", syncer.LogTail())
		}
		must(t)(l.root.Run(ctx, "delete", "physicalcluster/"+name, "--timeout=3m"))
		if err := syncer.Stop(); err != nil {
			t.Error(err)
		}
	})
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/"+name, "--timeout=3m"))
	return p, syncer
}

// surviveKills kills a process a few times while clients write and delete, and
// wants what they were told to be true in the end, above and below. It begins
// with the Deployment "first".
func surviveKills(t *testing.T, k process.Kubectl, h home, victim *process.Process) {
	t.Helper()
	ctx := context.Background()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	type answer struct {
		name    string
		deleted bool
		err     error
	}
	expected := map[string]int32{"first": 1}
	for round := range 4 {
		answers := make(chan answer)
		writers := 0
		for name := range expected {
			if round == 0 || writers == 2 {
				break
			}
			writers++
			go func() {
				_, err := k.Run(ctx, "delete", "deployment", name, "--wait=false")
				answers <- answer{name, true, err}
			}()
		}
		for i := range 6 {
			name := fmt.Sprintf("d%d-%d", round, i)
			writers++
			go func() {
				_, err := k.Apply(ctx, deployment(name, 1))
				answers <- answer{name, false, err}
			}()
		}
		time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond)
		victim.Kill()
		unsure := map[string]bool{}
		for range writers {
			switch a := <-answers; {
			case a.err != nil:
				unsure[a.name] = true
			case a.deleted:
				delete(expected, a.name)
			default:
				expected[a.name] = 1
			}
		}
		restart(t, victim)
		for name := range unsure { // the truth is what the server says now
			var d appsv1.Deployment
			ok, err := k.Get(ctx, &d, "deployment", name)
			if err != nil {
				t.Fatal(err)
			}
			if ok && d.DeletionTimestamp == nil {
				expected[name] = 1
			} else {
				delete(expected, name)
			}
		}
		converges(t, k, h, expected)
	}
}

func TestAPhysicalClusterKilledAndRestartedIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cliff := theLab.addPush(t, "cliff")
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=cliff"))
	must(t)(k.Apply(ctx, deployment("app", 2)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default", cliff)

	h.Kill()
	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=3"))
	must(t)(k.Apply(ctx, deployment("while-down", 1)))
	restart(t, h.Process)
	converges(t, k, h, map[string]int32{"app": 3, "while-down": 1})
}

func TestAnUnreachablePhysicalClusterKeepsItsCopiesAndStatus(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	skerry := theLab.addPush(t, "skerry")
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=skerry"))
	must(t)(k.Apply(ctx, deployment("app", 2)+deployment("doomed", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/doomed", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default", skerry)
	uid := uidOf(t, h.below(), "app")

	if err := h.Freeze(); err != nil {
		t.Fatal(err)
	}
	thawed := false
	defer func() {
		if !thawed {
			_ = h.Thaw()
		}
	}()
	// It is said that it does not answer; what was last known stays.
	eventually(t, func() error {
		ready, err := theLab.root.Run(ctx, "get", "physicalcluster/"+h.name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready == "True" {
			err = fmt.Errorf("%s is frozen and still Ready", h.name)
		}
		return err
	})
	if err := available(k, "app", 2); err != nil {
		t.Errorf("while silent: %v", err)
	}
	must(t)(k.Run(ctx, "delete", "deployment", "doomed", "--wait=false"))
	consistently(t, 5*time.Second, func() error {
		var d appsv1.Deployment
		if ok, err := k.Get(ctx, &d, "deployment", "doomed"); err != nil || !ok || d.DeletionTimestamp == nil {
			return fmt.Errorf("doomed is there: %v (error %v), want it to wait for the acknowledgement", ok, err)
		}
		return nil
	})
	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=4"))

	if err := h.Thaw(); err != nil {
		t.Fatal(err)
	}
	thawed = true
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/"+h.name, "--timeout=3m"))
	converges(t, k, h, map[string]int32{"app": 4})
	if err := want("UID of the copy", uidOf(t, h.below(), "app"), uid); err != nil {
		t.Errorf("the copy was made anew: %v", err)
	}
}

// converges waits until the Deployments above and the copies below are exactly
// those expected, and all are available.
func converges(t *testing.T, k process.Kubectl, h home, expected map[string]int32) {
	t.Helper()
	names := func(k process.Kubectl) (map[string]int32, error) {
		var list appsv1.DeploymentList
		if _, err := k.Get(context.Background(), &list, "deployments"); err != nil {
			return nil, err
		}
		found := map[string]int32{}
		for _, d := range list.Items {
			found[d.Name] = -1
			if d.Status.AvailableReplicas == *d.Spec.Replicas && d.DeletionTimestamp == nil {
				found[d.Name] = d.Status.AvailableReplicas
			}
		}
		return found, nil
	}
	eventually(t, func() error {
		above, err := names(k)
		if err != nil {
			return err
		}
		if err := want("available replicas of the Deployments above", above, expected); err != nil {
			return err
		}
		below, err := names(h.below())
		if err != nil {
			return err
		}
		return want("available replicas of the copies below", below, expected)
	})
}

func restart(t *testing.T, p *process.Process) {
	t.Helper()
	if err := p.Start(context.Background()); err != nil {
		t.Fatalf("restarting: %v", err)
	}
}

func uidOf(t *testing.T, k process.Kubectl, deployment string) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	get(t, k, &o, "deployment", deployment)
	return string(o.UID)
}

// physicalNamespace is what a namespace is called on its physical clusters, once it is
// placed.
func physicalNamespace(t *testing.T, k process.Kubectl, name string) (physical string) {
	t.Helper()
	eventually(t, func() error {
		var o metav1.PartialObjectMetadata
		if _, err := k.Get(context.Background(), &o, "namespace", name); err != nil {
			return err
		}
		if physical = o.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]; physical == "" {
			return fmt.Errorf("namespace %s is not placed", name)
		}
		return nil
	})
	return physical
}
