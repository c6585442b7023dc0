//go:build linux

package real

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// filesClass is a class of volumes of one node each: nothing but a copy brings what is in them elsewhere.
const filesClass = `
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: files}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
`

// database mounts a claim of such a class.
var database = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: files, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}\n---\n" +
	tools("db", "hold", "volumeMounts: [{name: data, mountPath: /data}]", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]")

// disk makes a volume on the node of a physical cluster, and returns the directory that it is.
func disk(t *testing.T, on, name string) string {
	t.Helper()
	dir := theLab.Path("disks", on+"-"+name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := theLab.PhysicalCluster(on)
	must(t)(p.Apply(t.Context(), filesClass))
	must(t)(p.Apply(t.Context(), fmt.Sprintf("{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {storageClassName: files, capacity: {storage: 1Gi}, "+
		"accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, hostPath: {path: %q}}}", name, dir)))
	t.Cleanup(func() {
		_, _ = p.Run(context.Background(), "delete", "persistentvolume", name, "--ignore-not-found", "--wait=false")
	})
	return dir
}

// declare says of both physical clusters what becomes of volumes of the class.
func declare(t *testing.T, class string) {
	t.Helper()
	for _, name := range []string{"east", "west"} {
		patch(t, name, `{"spec":{"volumes":[`+class+`]}}`)
	}
	t.Cleanup(func() {
		for _, name := range []string{"east", "west"} {
			must(t)(theLab.Root.Run(context.Background(), "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"volumes":null}}`))
		}
	})
}

var copied2Gi = `{"storageClass":"files","strategy":"Copy","copy":{"image":"` + lab.CopyImage + `","maxBytes":"2Gi"}}`

// fill writes files of several owners, and some bytes that nobody can guess.
func fill(t *testing.T, dir string, size int) {
	t.Helper()
	random := make([]byte, size)
	source := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = source.Read(random)
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "base/1"), 0o700), os.WriteFile(filepath.Join(dir, "base/1/table"), random, 0o600), os.WriteFile(filepath.Join(dir, "version"), []byte("16\n"), 0o644),
		os.Symlink("/etc/passwd", filepath.Join(dir, "out")), os.Link(filepath.Join(dir, "version"), filepath.Join(dir, "again")),
		os.Lchown(filepath.Join(dir, "base"), 999, 998), os.Lchown(filepath.Join(dir, "base/1/table"), 999, 998), os.Chmod(filepath.Join(dir, "base"), 0o750|os.ModeSetgid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// files are what is in a directory: mode, owner, time and content of each.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat, name := info.Sys().(*syscall.Stat_t), strings.TrimPrefix(path, dir)
		content := ""
		switch {
		case info.Mode().Type() == fs.ModeNamedPipe || info.Mode().Type() == fs.ModeSocket:
			return nil // nothing is in it
		case info.Size() > 1<<30 && info.Mode().IsRegular():
			if content, err = sparse(path, info.Size()); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			content = hex.EncodeToString(sum[:])
		case info.Mode().Type() == fs.ModeSymlink:
			content, _ = os.Readlink(path)
			out[name] = fmt.Sprint(info.Mode(), stat.Uid, stat.Gid, content)
			return nil
		}
		out[name] = fmt.Sprint(info.Mode(), stat.Uid, stat.Gid, info.ModTime().Unix(), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// island is where a file that is almost all hole has bytes.
const island = 3 << 30

// sparse is what such a file has, and whether it is one.
func sparse(path string, size int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	bytes := make([]byte, 16)
	_, err = f.ReadAt(bytes, island)
	return fmt.Sprint(size, " ", string(bytes), info.Sys().(*syscall.Stat_t).Blocks < 1000), err
}

// startsDatabase has it run on east with a volume in which files are.
func startsDatabase(t *testing.T, name string, size int) (n tenant, east, west string) {
	t.Helper()
	east, west = disk(t, "east", name), disk(t, "west", name)
	fill(t, east, size)
	n = newTenant(t, name).namespace(t, namespace, "east")
	must(t)(n.Apply(t.Context(), database))
	n.running(t, "db")
	return n, east, west
}

// transfer is what is said of a copy to west.
func transfer(n tenant) (placementv1alpha1.CopyStatus, error) {
	var list placementv1alpha1.CopyList
	out, err := n.Run(context.Background(), "get", "copies", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	for _, c := range list.Items {
		if c.Spec.Object.Resource == "persistentvolumeclaims" && c.Spec.PhysicalCluster == "west" {
			return c.Status, err
		}
	}
	if err == nil {
		err = fmt.Errorf("nothing is recorded of a claim on west")
	}
	return placementv1alpha1.CopyStatus{}, err
}

// copies waits until some of the data are on their way.
func copiesSome(t *testing.T, n tenant, attempt int64) {
	t.Helper()
	eventually(t, func() error {
		s, err := transfer(n)
		if err == nil && (s.Transfer == nil || s.Transfer.Attempts < attempt) {
			err = fmt.Errorf("the copy is %+v", s.Transfer)
		}
		return err
	})
}

// has says that the pods of the database see its files, on a physical cluster.
func has(t *testing.T, n tenant, on string) {
	t.Helper()
	n.running(t, "db")
	if got := must(t)(n.in(t.Context(), "deployment/db", "cat", "/data/version")); got != "16" {
		t.Errorf("on %s the database reads %q", on, got)
	}
}

func TestDataAreCopiedToAnotherPhysicalClusterWhole(t *testing.T) {
	n, east, west := startsDatabase(t, "copied", 5<<20)
	want := files(t, east)
	ctx := t.Context()

	// The control: nothing is declared, and the move does not begin.
	pin(t, n.Kubectl, "west")
	must(t)(n.Run(ctx, "wait", "placement/namespace", "--for=condition=Moving=False", "--timeout=1m"))
	if got := must(t)(n.Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].message}`)); !strings.Contains(got, "volumes of class files do not move from east") {
		t.Errorf("without a strategy: %s", got)
	}
	has(t, n, "east")

	declare(t, copied2Gi)
	settled(t, n.Kubectl, "west")
	has(t, n, "west")
	if diff := cmp.Diff(want, files(t, west)); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	// What they were copied from is kept, and no pod of ours is left.
	var pv corev1.PersistentVolume
	if ok, err := theLab.PhysicalCluster("east").Get(ctx, &pv, "persistentvolume", "copied"); err != nil || !ok || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("on east the volume is %+v (error %v)", pv.Spec, err)
	}
	eventually(t, func() error {
		for _, on := range []string{"east", "west"} {
			out, err := theLab.PhysicalCluster(on).Run(ctx, "get", "pods", "-A", "-l", "atoll.dev/copies-claim", "-o", "name")
			if err != nil || out != "" {
				return fmt.Errorf("on %s is left %s (error %v)", on, out, err)
			}
		}
		return nil
	})
	if diff := cmp.Diff(want, files(t, east)); diff != "" {
		t.Errorf("the files that were copied are changed (-want +got):\n%s", diff)
	}
}

// Everything dies once while data are copied, and somebody changes his mind.
func TestACopyThatIsInterruptedBeginsAgainAndLosesNothing(t *testing.T) {
	n, east, _ := startsDatabase(t, "interrupted", 400<<20)
	declare(t, copied2Gi)
	want := files(t, east)
	pin(t, n.Kubectl, "west")
	reaches(t, n.Kubectl, placementv1alpha1.TransitionHandingOver)
	copiesSome(t, n, 1)
	crash(t, theLab.Server)
	copiesSome(t, n, 2)
	crash(t, theLab.PhysicalCluster("west").Syncer)
	copiesSome(t, n, 3)
	must(t)(theLab.PhysicalCluster("west").In(below(t, n.Kubectl)).Run(t.Context(), "delete", "pods", "-l", "atoll.dev/copies-claim", "--grace-period=1"))
	copiesSome(t, n, 4)
	crash(t, theLab.PhysicalCluster("east").ControlPlane)
	// Back: what is on east goes on there as it was, and what was begun on west goes.
	pin(t, n.Kubectl, "east")
	settled(t, n.Kubectl, "east")
	has(t, n, "east")
	if diff := cmp.Diff(want, files(t, east)); diff != "" {
		t.Errorf("after a move that was abandoned (-want +got):\n%s", diff)
	}
	gone := theLab.PhysicalCluster("west").In(below(t, n.Kubectl))
	eventually(t, func() error {
		out, err := gone.Run(context.Background(), "get", "persistentvolumeclaims,pods", "-o", "name")
		if err == nil && out != "" {
			err = fmt.Errorf("on west is left %s", out)
		}
		return err
	})
	// What is written meanwhile is what counts when it moves after all.
	if err := os.WriteFile(filepath.Join(east, "later"), bytes.Repeat([]byte("later"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	want = files(t, east)
	must(t)(theLab.PhysicalCluster("west").Run(t.Context(), "delete", "persistentvolume", "interrupted", "--timeout=1m"))
	west := disk(t, "west", "interrupted")
	pin(t, n.Kubectl, "west")
	settled(t, n.Kubectl, "west")
	has(t, n, "west")
	if diff := cmp.Diff(want, files(t, west)); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
}
