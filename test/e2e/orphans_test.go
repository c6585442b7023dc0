package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// A server that is restored from a backup does not know what was made after it:
// those are orphans. Nothing becomes of them without an order.
func TestWhatABackupDoesNotKnowIsListedAndOrdered(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := startSecondServer(t)
	k := process.Kubectl{Kubeconfig: l.kubeconfig(t, "shop")}
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	must(t)(web.Apply(ctx, deployment("kept", 1)))
	h := l.homeOf(t, k, "web")
	rolledOut(t, web, "kept")
	kept := uidOf(t, h.below(), "kept")

	keepBackup(t, l)
	names := []string{"removed", "adopted", "left", "all-1", "all-2"}
	for _, name := range names {
		must(t)(web.Apply(ctx, deployment(name, 1)))
	}
	for _, name := range names {
		rolledOut(t, web, name)
	}
	adopted, left := uidOf(t, h.below(), "adopted"), uidOf(t, h.below(), "left")
	restoreOrphanage(t, l)

	orphans := map[string]string{} // by the name of the Deployment
	eventually(t, func() error {
		clear(orphans)
		var list fleetv1alpha1.OrphanList
		if _, err := l.root.Get(ctx, &list, "orphans"); err != nil {
			return err
		}
		for _, o := range list.Items {
			orphans[o.Spec.Object.Name] = o.Name
			if o.Status.State != fleetv1alpha1.OrphanFound || o.Status.Reason != fleetv1alpha1.ReasonNotFound {
				return fmt.Errorf("%s is %s, %s", o.Spec.Object.Name, o.Status.State, o.Status.Reason)
			}
		}
		return counts(ctx, l, 5, 5)
	})
	table := must(t)(l.root.Run(ctx, "get", "orphans"))
	t.Log("\n" + table)
	for _, want := range []string{"east", "Deployment", h.namespace + "/removed", "shop/web/removed", "Found", "NotFound"} {
		if !strings.Contains(table, want) {
			t.Errorf("kubectl get orphans does not say %q", want)
		}
	}
	if page := must(t)(l.root.Run(ctx, "get", "--raw", "/apis/fleet.atoll.dev/v1alpha1/orphans?limit=2")); !strings.Contains(page, `"continue":"`) {
		t.Errorf("a list is not paged: %.300s", page)
	}
	for _, name := range names {
		if !exists(t, h, name) {
			t.Fatalf("%s is gone, and nobody ordered that", name)
		}
	}

	order := func(name, order string) {
		t.Helper()
		must(t)(l.root.Run(ctx, "patch", "orphan", orphans[name], "--type=merge", "-p", `{"spec":{"order":"`+order+`"}}`))
	}
	order("removed", "Remove")
	eventually(t, func() error { return removedAsOrdered(ctx, l, h, orphans["removed"], "removed") })

	order("adopted", "Adopt")
	eventually(t, func() error { return state(ctx, l, orphans["adopted"], "Refused NoObject") })
	must(t)(web.Apply(ctx, deployment("adopted", 2)))
	rolledOut(t, web, "adopted")
	eventually(t, func() error { return unlisted(ctx, l, orphans["adopted"]) })
	if now := uidOf(t, h.below(), "adopted"); now != adopted {
		t.Errorf("adopted, it was made anew: %s, not %s", now, adopted)
	}

	order("left", "Leave")
	eventually(t, func() error { return state(ctx, l, orphans["left"], "Left Ordered") })
	eventually(t, func() error { return counts(ctx, l, 3, 2) })
	must(t)(web.Apply(ctx, deployment("left", 1)))
	eventually(t, func() error {
		out, err := web.Run(ctx, "get", "copies")
		if err != nil || !strings.Contains(out, "OrphanInTheWay") {
			return fmt.Errorf("nobody says what is in the way: %v\n%s", err, out)
		}
		return nil
	})
	must(t)(web.Run(ctx, "delete", "deployment", "left", "--timeout=3m"))

	orderAll(t, l, "east", "Remove")
	for _, name := range []string{"all-1", "all-2"} {
		eventually(t, func() error { return removedAsOrdered(ctx, l, h, orphans[name], name) })
	}
	eventually(t, func() error { return counts(ctx, l, 1, 0) })
	if now := uidOf(t, h.below(), "left"); now != left {
		t.Errorf("what is to be left is another one now: %s, not %s", now, left)
	}
	if now := uidOf(t, h.below(), "kept"); now != kept {
		t.Errorf("what the backup knows is another one now: %s, not %s", now, kept)
	}
}

// A namespace moves, in the physical one of which there is something that a restored backup does not know.
func TestANamespaceThatLeavesTakesNoOrphansAlong(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := startSecondServer(t)
	if err := l.register(ctx, "west", theLab.west.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/west"))
	k := process.Kubectl{Kubeconfig: l.kubeconfig(t, "shop")}
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	pin(t, k, "web", "east")
	web := k.In("web")
	must(t)(web.Apply(ctx, deployment("known", 1)))
	rolledOut(t, web, "known")
	h := l.homeOf(t, k, "web")
	keepBackup(t, l)
	must(t)(web.Apply(ctx, deployment("unknown", 1)))
	rolledOut(t, web, "unknown")
	unknown := uidOf(t, h.below(), "unknown")
	restoreOrphanage(t, l)
	eventually(t, func() error { return counts(ctx, l, 1, 1) })

	pin(t, k, "web", "west")
	restsOn(t, k, "web", "west")
	keptForOrphans(t, k, "web", "east")
	if now := uidOf(t, h.below(), "unknown"); now != unknown {
		t.Errorf("what nobody ordered anything about is another one now: %s, not %s", now, unknown)
	}
	if exists(t, h, "known") {
		t.Error("what left is there")
	}
	orderAll(t, l, "east", "Remove")
	eventually(t, func() error { return gone(theLab.east.Kubectl, "namespace", h.namespace) })
	eventually(t, func() error { return counts(ctx, l, 0, 0) })
}

// keptForOrphans waits until the Copy of a namespace that leaves says why it stays.
func keptForOrphans(t *testing.T, k process.Kubectl, namespace, at string) {
	t.Helper()
	eventually(t, func() error {
		var list placementv1alpha1.CopyList
		if _, err := k.In(namespace).Get(context.Background(), &list, "copies"); err != nil {
			return err
		}
		for _, c := range list.Items {
			if c.Spec.PhysicalCluster == at && c.Spec.Object.Resource == "namespaces" && c.Status.State == placementv1alpha1.CopyRemoving &&
				c.Status.Reason == placementv1alpha1.ReasonOrphansInside {
				return nil
			}
		}
		return fmt.Errorf("no Copy says that the namespace stays on %s: %+v", at, list.Items)
	})
}

// orderAll orders what becomes of all orphans of a physical cluster, also those that are found within the next minute.
func orderAll(t *testing.T, l *lab, at, order string) {
	t.Helper()
	until := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	must(t)(l.root.Run(context.Background(), "patch", "physicalcluster", at, "--type=merge", "-p", `{"spec":{"orphans":{"order":"`+order+`","foundBefore":"`+until+`"}}}`))
}

// startSecondServer starts a server of one's own that has the physical cluster east,
// too, and a logical cluster shop.
func startSecondServer(t *testing.T) *lab {
	t.Helper()
	ctx := context.Background()
	// Not that of another test: what an admin ordered there about all orphans may hold for a while yet.
	dir, err := os.MkdirTemp(theLab.dir, "second-")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: dir, east: theLab.east, west: theLab.west}
	if l.listen, err = ports.Address("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	l.server, err = process.Start(ctx, process.Spec{
		Path:  process.Binary("atoll"),
		Args:  []string{"start", "--data-dir", l.path("atoll"), "--listen", l.listen},
		Log:   l.path("atoll.log"),
		Ready: "atoll serves at ",
	})
	if err != nil {
		t.Fatal(err)
	}
	l.root = process.Kubectl{Kubeconfig: l.path("atoll", "admin.kubeconfig"), Context: "root"}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := l.root.Run(ctx, "get", "orphans,physicalclusters", "-o", "yaml")
			t.Logf("%v\n%s\nend of the server's log:\n%s", err, out, l.server.LogTail())
		}
		if _, err := l.root.Run(ctx, "delete", "logicalcluster", "shop", "--timeout=3m"); err != nil {
			t.Error(err)
		}
		if err := l.server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := l.register(ctx, "east", theLab.east.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/east"))
	must(t)(l.root.Apply(ctx, "apiVersion: tenancy.atoll.dev/v1alpha1\nkind: LogicalCluster\nmetadata: {name: shop}\n"))
	return l
}

// keepBackup keeps what the server has, and restoreOrphanage brings it back to that.
func keepBackup(t *testing.T, l *lab) {
	t.Helper()
	stopped(t, l, func() error { return os.CopyFS(l.path("backup"), os.DirFS(l.path("atoll"))) })
}

func restoreOrphanage(t *testing.T, l *lab) {
	t.Helper()
	stopped(t, l, func() error {
		if err := os.RemoveAll(l.path("atoll")); err != nil {
			return err
		}
		return os.Rename(l.path("backup"), l.path("atoll"))
	})
}

func stopped(t *testing.T, l *lab, do func() error) {
	t.Helper()
	if err := l.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
	restart(t, l.server)
}

func rolledOut(t *testing.T, k process.Kubectl, name string) {
	t.Helper()
	must(t)(k.Run(context.Background(), "rollout", "status", "deployment/"+name, "--timeout=3m"))
}

func exists(t *testing.T, h home, name string) bool {
	t.Helper()
	var d appsv1.Deployment
	ok, err := h.below().Get(context.Background(), &d, "deployment", name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// removedAsOrdered says why an order to remove is not carried out yet.
func removedAsOrdered(ctx context.Context, l *lab, h home, orphan, name string) error {
	var d appsv1.Deployment
	if ok, err := h.below().Get(ctx, &d, "deployment", name); err != nil || ok {
		return fmt.Errorf("%s is there: %v (%v)", name, ok, err)
	}
	return unlisted(ctx, l, orphan)
}

func unlisted(ctx context.Context, l *lab, orphan string) error {
	var o fleetv1alpha1.Orphan
	if ok, err := l.root.Get(ctx, &o, "orphan", orphan); err != nil || ok {
		return fmt.Errorf("Orphan %s is listed: %v (%v), %s %s", orphan, ok, err, o.Status.State, o.Status.Reason)
	}
	return nil
}

func state(ctx context.Context, l *lab, orphan, want string) error {
	var o fleetv1alpha1.Orphan
	if _, err := l.root.Get(ctx, &o, "orphan", orphan); err != nil {
		return err
	}
	if got := string(o.Status.State) + " " + o.Status.Reason; got != want {
		return fmt.Errorf("the Orphan of %s is %s, not %s", o.Spec.Object.Name, got, want)
	}
	return nil
}

func counts(ctx context.Context, l *lab, found, undecided int32) error {
	var pc fleetv1alpha1.PhysicalCluster
	if _, err := l.root.Get(ctx, &pc, "physicalcluster", "east"); err != nil {
		return err
	}
	if want := (fleetv1alpha1.OrphanCounts{Found: found, Undecided: undecided}); pc.Status.Orphans != want {
		return fmt.Errorf("the PhysicalCluster counts %+v, not %+v", pc.Status.Orphans, want)
	}
	return nil
}

// A server is restored from a backup of before a database moved. Where that was it is made again, with volumes that are
// empty; its data are elsewhere, in orphans, and an admin brings the two together.
func TestTheDataOfWhatMovedAfterABackupAreFoundAgain(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east", "west")
	l.shareDisks(t)
	k := l.newCluster(t)
	// West is not emptied by the move: it would wait for a word about that.
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: stays, annotations: {placement.atoll.dev/cluster: west}}}"))
	must(t)(k.In("stays").Apply(ctx, deployment("front", 1)))
	rolledOut(t, k.In("stays"), "front")
	below := l.startDatabase(t, k, "shop", l.west)
	keepBackup(t, l)
	pin(t, k, "shop", "east")
	settled(t, k, "shop", "east")
	hasVolumes(t, l.east, l.west, below)
	restoreOrphanage(t, l)

	eventually(t, func() error {
		out, err := k.In("shop").Run(ctx, "describe", "persistentvolumeclaim", "own")
		if err != nil || !strings.Contains(out, "MadeAgain") || !strings.Contains(out, "west: the claim is gone") {
			return fmt.Errorf("nobody says that the new volume is empty: %v\n%s", err, out)
		}
		return nil
	})
	hasVolumes(t, l.east, l.west, below)
	// What is empty goes, and what has the data is taken over.
	shop := k.In("shop")
	must(t)(shop.Run(ctx, "delete", "statefulset/db", "--timeout=3m"))
	must(t)(shop.Run(ctx, "delete", "persistentvolumeclaim", "own", "data-db-0", "--timeout=3m"))
	orderAll(t, l, "east", "Adopt")
	pin(t, k, "shop", "east")
	settled(t, k, "shop", "east")
	must(t)(shop.Apply(ctx, database+"---\n"+
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-db-0}, spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"))
	must(t)(shop.Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	hasVolumes(t, l.east, l.west, below)
	eventually(t, func() error { return counts(ctx, l, 0, 0) })
}
