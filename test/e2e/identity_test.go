package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// The tests of this file lead the server to other clusters, which they have to themselves.

func TestTheKubeconfigOfAnotherClusterPutsNothingThereAndAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	own, other := theLab.addPush(t, "cape"), theLab.addPush(t, "bay")
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=cape"))
	must(t)(k.Apply(ctx, deployment("app", 2)+deployment("doomed", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/doomed", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default", own)
	uid := uidOf(t, h.below(), "app")
	eventually(t, func() error { return want("populated", physical(t, h.name).Status.Identity.Populated, true) })
	before := physical(t, h.name).Status

	lead := func(to *physicalCluster) {
		t.Helper()
		if err := theLab.register(ctx, h.name, to.Kubeconfig, apart); err != nil {
			t.Fatal(err)
		}
	}
	lead(other)
	defer lead(h.physicalCluster)
	eventually(t, func() error { return ready(t, h.name, fleetv1alpha1.ReasonOtherCluster) })
	message := meta.FindStatusCondition(physical(t, h.name).Status.Conditions, fleetv1alpha1.ConditionReady).Message
	for _, identity := range []string{identityOf(t, h.Kubectl), identityOf(t, other.Kubectl)} {
		if !strings.Contains(message, identity) {
			t.Errorf("%s is not in the message %q", identity, message)
		}
	}
	must(t)(k.Run(ctx, "delete", "deployment", "doomed", "--wait=false"))
	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=3"))
	must(t)(k.Apply(ctx, deployment("meanwhile", 1)))
	consistently(t, 10*time.Second, func() error {
		var d appsv1.Deployment
		if ok, err := k.Get(ctx, &d, "deployment", "doomed"); err != nil || !ok || d.DeletionTimestamp == nil {
			return fmt.Errorf("doomed is there: %v (error %v), want it to wait for its own cluster", ok, err)
		}
		if ok, err := k.Get(ctx, &d, "deployment", "app"); err != nil || !ok || d.Status.ReadyReplicas != 2 {
			return fmt.Errorf("app is there: %v (error %v), with %d ready replicas, want the 2 that were last seen", ok, err, d.Status.ReadyReplicas)
		}
		return gone(other.Kubectl, "namespace", h.namespace)
	})
	after := physical(t, h.name).Status
	for _, s := range []*fleetv1alpha1.PhysicalClusterStatus{&before, &after} {
		s.Conditions, s.Requested = nil, nil // what the pods of the lab request changes
	}
	if err := want("status besides the conditions", after, before); err != nil {
		t.Error(err)
	}

	lead(h.physicalCluster)
	eventually(t, func() error { return ready(t, h.name, fleetv1alpha1.ReasonHeartbeat) })
	converges(t, k, h, map[string]int32{"app": 3, "meanwhile": 1})
	if err := want("UID of the copy", uidOf(t, h.below(), "app"), uid); err != nil {
		t.Errorf("the copy was made anew: %v", err)
	}
	if err := gone(other.Kubectl, "namespace", h.namespace); err != nil {
		t.Error(err)
	}
}

func TestAnEmptiedPhysicalClusterAndAnotherInItsPlaceAreFilledAfterAConfirmation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	island, err := theLab.startPhysical(ctx, "island")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := island.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := theLab.register(ctx, "island", island.Kubeconfig, apart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/island", "--timeout=3m")) })
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/island", "--timeout=3m"))
	data, backup := theLab.path("island", "etcd"), filepath.Join(t.TempDir(), "etcd")
	replaceData(t, island, func() error { return os.CopyFS(backup, os.DirFS(data)) })

	// The same cluster again, under another name.
	if err := theLab.register(ctx, "twin", island.Kubeconfig, apart); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return ready(t, "twin", fleetv1alpha1.ReasonSameCluster) })
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/twin", "--timeout=3m"))

	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=island"))
	must(t)(k.Apply(ctx, deployment("app", 2)+deployment("doomed", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default", island)
	converges(t, k, h, map[string]int32{"app": 2, "doomed": 1})
	eventually(t, func() error {
		return want("populated", physical(t, "island").Status.Identity.Populated, true)
	})

	// Restored from a backup of before we came: the same cluster, without a trace of us.
	replaceData(t, island, func() error {
		return firstError(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup)))
	})
	eventually(t, func() error { return ready(t, "island", fleetv1alpha1.ReasonEmptied) })
	must(t)(k.Run(ctx, "delete", "deployment", "doomed", "--wait=false"))
	left := func() error {
		var d appsv1.Deployment
		if ok, err := k.Get(ctx, &d, "deployment", "doomed"); err != nil || !ok {
			return fmt.Errorf("doomed is there: %v (error %v), want it to wait for a confirmation", ok, err)
		}
		return gone(island.Kubectl, "namespace", h.namespace)
	}
	consistently(t, 5*time.Second, left)
	emptied := physical(t, "island").Status.Identity.Emptied.UTC().Format(time.RFC3339)
	confirm := func(field, value string) {
		t.Helper()
		must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/island", "--type=merge", "-p", fmt.Sprintf(`{"spec":{%q:%q}}`, field, value)))
	}
	confirm("emptied", emptied)
	eventually(t, func() error { return ready(t, "island", fleetv1alpha1.ReasonHeartbeat) })
	converges(t, k, h, map[string]int32{"app": 2})

	// Made anew: another cluster at the same address.
	replaceData(t, island, func() error { return os.RemoveAll(data) })
	eventually(t, func() error { return ready(t, "island", fleetv1alpha1.ReasonOtherCluster) })
	must(t)(k.Apply(ctx, deployment("doomed", 1)))
	consistently(t, 5*time.Second, left)
	identity := identityOf(t, island.Kubectl)

	// What a syncer may write does not confirm it.
	syncer := process.Kubectl{Kubeconfig: theLab.kubeconfig(t, "--syncer", "island")}
	server := "--server=https://" + theLab.listen + "/targets/island/clusters/root"
	for what, args := range map[string][]string{
		"the spec":   {"-p", `{"spec":{"identity":"` + identity + `"}}`},
		"the status": {"--subresource=status", "-p", `{"status":{"identity":{"uid":"` + identity + `"}}}`},
	} {
		if _, err := syncer.Run(ctx, append([]string{server, "patch", "physicalcluster/island", "--type=merge"}, args...)...); err == nil || !strings.Contains(err.Error(), "orbidden") {
			t.Errorf("a syncer that writes %s: %v, want it to be forbidden", what, err)
		}
	}
	confirm("identity", identity)
	eventually(t, func() error { return ready(t, "island", fleetv1alpha1.ReasonHeartbeat) })
	converges(t, k, h, map[string]int32{"app": 2, "doomed": 1})
}

// replaceData does something to the data of a physical cluster that is stopped.
func replaceData(t *testing.T, p *physicalCluster, do func() error) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
	restart(t, p.Process)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func physical(t *testing.T, name string) *fleetv1alpha1.PhysicalCluster {
	t.Helper()
	var pc fleetv1alpha1.PhysicalCluster
	get(t, theLab.root, &pc, "physicalcluster", name)
	return &pc
}

// ready returns an error unless the Ready condition has a reason.
func ready(t *testing.T, name, reason string) error {
	t.Helper()
	c := meta.FindStatusCondition(physical(t, name).Status.Conditions, fleetv1alpha1.ConditionReady)
	if c == nil || c.Reason != reason {
		return fmt.Errorf("Ready of %s is %+v, want %s", name, c, reason)
	}
	return nil
}

// identityOf is the UID by which a cluster is known.
func identityOf(t *testing.T, k process.Kubectl) string {
	t.Helper()
	return must(t)(k.Run(context.Background(), "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"))
}
