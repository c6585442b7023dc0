package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

const (
	snapsClass = `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: snaps}, provisioner: snaps.example.com, volumeBindingMode: WaitForFirstConsumer}`
	snapshots  = `{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: moves}, driver: snaps.example.com, deletionPolicy: Delete, parameters: {csi.storage.k8s.io/snapshotter-secret-name: of-the-backend}}`
	takesSnaps = `{"spec":{"volumes":[{"storageClass":"snaps","strategy":"Snapshot","backend":"san","driver":"snaps.example.com","snapshot":{"volumeSnapshotClass":"moves","image":"atoll-copy:1"}}]}}`
)

// snapshotDefinitions are those of the API of snapshots, as its module has them.
func snapshotDefinitions(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/kubernetes-csi/external-snapshotter/client/v8")
	cmd.Dir = filepath.Join(process.Root(), "test", "e2e", "operators", "modules", "snapshots")
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatalf("finding the API of snapshots: %v %s", err, out)
	}
	var all []string
	for _, resource := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		definition, err := os.ReadFile(filepath.Join(module.Dir, "config", "crd", "snapshot.storage.k8s.io_"+resource+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(definition))
	}
	return strings.Join(all, "\n---\n")
}

// newSnapLab is a lab of east and west with one backend; only west has the class of snapshots.
func newSnapLab(t *testing.T) (*lab, *storageBackend) {
	t.Helper()
	ctx := context.Background()
	definitions := snapshotDefinitions(t)
	l, b := newLab(t, "east", "west"), newBackend()
	for _, p := range l.physicalClusters() {
		must(t)(p.Apply(ctx, definitions+"\n---\n"+snapsClass))
		must(t)(p.Run(ctx, "wait", "--for=condition=Established", "--timeout=1m", "customresourcedefinition/volumesnapshotclasses.snapshot.storage.k8s.io"))
		must(t)(l.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=merge", "-p", takesSnaps))
		b.serve(t, p)
	}
	must(t)(l.west.Apply(ctx, snapshots))
	return l, b
}

// reports waits until a physical cluster reports its class of snapshots, and no Secret of it.
func reports(t *testing.T, l *lab, on string) {
	t.Helper()
	eventually(t, func() error {
		out, err := l.root.Run(context.Background(), "get", "physicalcluster/"+on, "-o", "jsonpath={.status.volumeSnapshotClasses}")
		if err == nil {
			err = want("the classes of "+on, out, `{"classes":[{"deletionPolicy":"Delete","driver":"snaps.example.com","name":"moves"}]}`)
		}
		return err
	})
}

// startSnapped has the database run on west, with volumes of the backend.
func startSnapped(t *testing.T, l *lab, b *storageBackend, k process.Kubectl) (below string) {
	t.Helper()
	ctx := context.Background()
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: west}}}"))
	must(t)(k.In("shop").Apply(ctx, strings.ReplaceAll(database, "storageClassName: disks", "storageClassName: snaps")))
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	b.fill("rows")
	return l.homeOf(t, k, "shop").namespace
}

// moving is what is said of the move.
func moving(k process.Kubectl) (string, error) {
	return k.In("shop").Run(context.Background(), "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].reason}: {.status.conditions[?(@.type=="Moving")].message}`)
}

// says waits until something is said of the move.
func says(t *testing.T, k process.Kubectl, what string) {
	t.Helper()
	eventually(t, func() error {
		out, err := moving(k)
		if err == nil && !strings.Contains(out, what) {
			err = fmt.Errorf("the placement says %q, want %q", out, what)
		}
		return err
	})
}

// noSnapshots waits until nothing of a snapshot is left anywhere.
func noSnapshots(t *testing.T, l *lab, b *storageBackend) {
	t.Helper()
	eventually(t, func() error {
		for _, p := range l.physicalClusters() {
			out, err := p.Run(context.Background(), "get", "volumesnapshots,volumesnapshotcontents,pods", "-A", "-l", "!app", "-o", "name")
			if err != nil {
				return err
			}
			if strings.Contains(out, "snapshot") || strings.Contains(out, "atoll-copy") {
				return fmt.Errorf("%s has %s", p.name, out)
			}
		}
		_, snapshots := b.holds()
		return want("snapshots of the backend", len(snapshots), 0)
	})
}

// hasContent says that the claims have their data on a physical cluster, and says in which volumes.
func hasContent(t *testing.T, b *storageBackend, on *physicalCluster, below string, was map[string]string) map[string]string {
	t.Helper()
	handles := map[string]string{}
	for _, claim := range []string{"own", "data-db-0"} {
		handle, content, err := b.contentOf(context.Background(), on, below, claim)
		if err != nil {
			t.Fatal(err)
		}
		if was == nil {
			was = map[string]string{}
		}
		if from := was[claim]; from != "" {
			if err := want("what "+claim+" has on "+on.name, content, "rows of "+from); err != nil || handle == from {
				t.Errorf("in %s, from %s: %v", handle, from, err)
			}
		}
		handles[claim] = handle
	}
	return handles
}

func TestAStatefulSetMovesBySnapshots(t *testing.T) {
	long(t)
	ctx := context.Background()
	l, b := newSnapLab(t)
	reports(t, l, "west")
	k := l.newCluster(t)
	below := startSnapped(t, l, b, k)
	was := hasContent(t, b, l.west, below, nil)

	// What east lacks is said before anything is stopped.
	out, _ := k.Command(ctx, "annotate", "namespace", "shop", "--overwrite", "--dry-run=server", placementv1alpha1.PhysicalClusterAnnotation+"=east").CombinedOutput()
	if !strings.Contains(string(out), "east has no volume snapshot class moves") {
		t.Errorf("the dry run says %s", out)
	}
	pin(t, k, "shop", "east")
	says(t, k, "Blocked: PersistentVolumeClaim data-db-0: its volume is on west and does not move (east has no volume snapshot class moves)")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=10s"))

	// It has the class by now, and the driver on west makes no snapshots.
	b.set(func() { b.snapFails = "the disk is full" })
	must(t)(l.east.Apply(ctx, snapshots))
	reports(t, l, "east")
	says(t, k, "its snapshot is not there yet: VolumeSnapshot atoll-snapshot-")
	says(t, k, "the disk is full")
	if err := want("phase", phaseOf(t, k), placementv1alpha1.TransitionRemoving); err != nil {
		t.Error(err)
	}
	pin(t, k, "shop", "west")
	settled(t, k, "shop", "west")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	noSnapshots(t, l, b)

	// It makes them, and nothing is restored on east: the move is taken back, and what was made goes.
	b.set(func() { b.snapFails, b.restoreFails = "", "no room" })
	pin(t, k, "shop", "east")
	reaches(t, k, placementv1alpha1.TransitionHandingOver)
	says(t, k, "its volume is not bound yet")
	if _, made := b.holds(); len(made) != 2 {
		t.Errorf("the backend has the snapshots %v", made)
	}
	l.server.Kill()
	restart(t, l.server)
	if err := want("phase", phaseOf(t, k), placementv1alpha1.TransitionHandingOver); err != nil {
		t.Error(err)
	}
	pin(t, k, "shop", "west")
	settled(t, k, "shop", "west")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	noSnapshots(t, l, b)
	if again := hasContent(t, b, l.west, below, nil); again["own"] != was["own"] || again["data-db-0"] != was["data-db-0"] {
		t.Errorf("on west are the volumes %v, and were %v", again, was)
	}

	// It does now. What is written after an attempt that was taken back is there.
	b.fill("rows")
	b.set(func() { b.restoreFails = "" })
	pin(t, k, "shop", "east")
	settled(t, k, "shop", "east")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	noSnapshots(t, l, b)
	on := hasContent(t, b, l.east, below, was)
	for claim, handle := range was {
		policy := must(t)(l.west.Run(ctx, "get", "persistentvolumes", "-o", `jsonpath={range .items[?(@.spec.csi.volumeHandle=="`+handle+`")]}{.spec.persistentVolumeReclaimPolicy} {.status.phase}{end}`))
		if err := want("the former volume of "+claim, policy, "Retain Released"); err != nil {
			t.Error(err)
		}
	}
	if out := must(t)(k.In("shop").Run(ctx, "get", "copies,persistentvolumeclaims", "-o", "yaml")); strings.Contains(out, "secret") || strings.Contains(out, "of-the-backend") {
		t.Errorf("users read %s", out)
	}

	// And back, where the former volume is reclaimed.
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/east", "--type=merge", "-p", strings.Replace(takesSnaps, `"image"`, `"formerVolume":"Reclaim","image"`, 1)))
	b.fill("rows")
	pin(t, k, "shop", "west")
	settled(t, k, "shop", "west")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	noSnapshots(t, l, b)
	hasContent(t, b, l.west, below, on)
	eventually(t, func() error {
		volumes, _ := b.holds()
		for _, handle := range on {
			if strings.Contains(strings.Join(volumes, " "), handle) {
				return fmt.Errorf("the backend has %v, of them %s of before", volumes, handle)
			}
		}
		return nil
	})
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

// West was taken over: it says that the snapshot of another tenant is that of a claim there.
func TestASnapshotThatAnotherClaimHasIsNotRestored(t *testing.T) {
	long(t)
	ctx := context.Background()
	l, b := newSnapLab(t)
	must(t)(l.east.Apply(ctx, snapshots))
	reports(t, l, "east")
	reports(t, l, "west")
	victim, thief := l.newCluster(t), l.newCluster(t)
	startSnapped(t, l, b, victim)
	stolen := startSnapped(t, l, b, thief)
	b.set(func() { b.restoreFails = "no room" })
	pin(t, victim, "shop", "east")
	reaches(t, victim, placementv1alpha1.TransitionHandingOver)
	_, made := b.holds()
	if len(made) != 2 {
		t.Fatalf("the backend has the snapshots %v", made)
	}
	b.set(func() { b.forged = made[0] })
	pin(t, thief, "shop", "east")
	says(t, thief, "another claim has the same snapshot in the backend san")
	if out := must(t)(l.east.In(stolen).Run(ctx, "get", "volumesnapshots,persistentvolumeclaims", "-o", "name")); out != "" {
		t.Errorf("east has %s", out)
	}
	pin(t, thief, "shop", "west")
	settled(t, thief, "shop", "west")
	b.set(func() { b.forged, b.restoreFails = "", "" })
	settled(t, victim, "shop", "east")
	noSnapshots(t, l, b)
}
