package operators

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/framework/snapshots"
)

const store = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  replicas: 1
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {containers: [{name: store, image: store, volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: directories, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// physical is a physical cluster with snapshot-controller, and the sidecars of a driver that both of them have.
func (l *lab) physical(t *testing.T, name, socket string) process.Kubectl {
	t.Helper()
	k := process.Kubectl{Kubeconfig: l.path(name, "admin.kubeconfig")}
	for _, file := range snapshots.Definitions(sources(t, "modules/snapshots", snapshots.Module)) {
		define(t, k, file)
	}
	do(t)(k.Apply(t.Context(), snapshots.Objects))
	for _, program := range snapshots.Programs(func(name string) string { return built(t, name) }, k.Kubeconfig, socket) {
		l.command(t, filepath.Base(program[0])+"-"+name, program)
	}
	do(t)(l.root.Run(t.Context(), "patch", "physicalcluster/"+name, "--type=merge", "-p", snapshots.Patch("atoll-copy:1")))
	becomes(t, l.root, "moves", jsonpath("physicalcluster/"+name, ".status.volumeSnapshotClasses.classes[*].name")...)
	return k
}

// ends has the pods end that mount what was restored: simulated nodes mount nothing, and run everything for ever.
func ends(t *testing.T, k process.Kubectl) {
	t.Helper()
	go func() {
		for t.Context().Err() == nil {
			out, err := k.Run(t.Context(), "get", "pods", "-A", "-l", "atoll.dev/copies-claim", "-o", `jsonpath={range .items[?(@.status.phase=="Running")]}{.metadata.namespace} {.metadata.name}{"\n"}{end}`)
			for line := range strings.Lines(out) {
				var namespace, name string
				if n, _ := fmt.Sscan(line, &namespace, &name); n == 2 && err == nil {
					_, _ = k.In(namespace).Run(t.Context(), "patch", "pod", name, "--subresource=status", "--type=merge", "-p",
						`{"status":{"phase":"Succeeded","containerStatuses":[{"name":"copy","image":"","imageID":"","restartCount":0,"ready":false,"state":{"terminated":{"exitCode":0}}}]}}`)
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
}

// volumeOf is the directory of the claim of the store on a physical cluster.
func volumeOf(t *testing.T, k process.Kubectl, dir string) string {
	t.Helper()
	name := strings.Fields(do(t)(k.Run(t.Context(), "get", "persistentvolumeclaims", "-A", "-o", `jsonpath={.items[*].spec.volumeName}`)))
	if len(name) != 1 {
		t.Fatalf("there are the claims of %v", name)
	}
	return filepath.Join(dir, "volumes", do(t)(k.Run(t.Context(), "get", "persistentvolume", name[0], "-o", "jsonpath={.spec.csi.volumeHandle}")))
}

// The controllers of snapshots and of volumes, and the sidecars of a driver, are those that clusters run.
func TestAStatefulSetMovesBySnapshotsOfARealDriver(t *testing.T) {
	driver := built(t, "directories")
	ctx := t.Context()
	dir := theLab.path("directories")
	socket := theLab.path("csi.sock")
	theLab.command(t, "directories", []string{driver, socket, dir})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the driver does not listen")
		}
	}
	at := map[string]process.Kubectl{}
	for _, name := range []string{"east", "west"} {
		at[name] = theLab.physical(t, name, socket)
		ends(t, at[name])
	}
	k := theLab.newCluster(t, "snapshots")
	do(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: west}}}\n---\n"+
		"{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: moves, namespace: shop}, spec: {move: {drainSeconds: 0}}}"))
	shop := k.In("shop")
	do(t)(shop.Apply(ctx, store))
	becomes(t, shop, "1", jsonpath("statefulset/store", ".status.readyReplicas")...)

	from := "west"
	for i, to := range []string{"east", "west"} {
		was := volumeOf(t, at[from], dir)
		written := fmt.Sprintf("row %d", i)
		if err := os.WriteFile(filepath.Join(was, "table"), []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		do(t)(k.Run(ctx, "annotate", "namespace", "shop", "--overwrite", "placement.atoll.dev/cluster="+to))
		becomes(t, shop, to, jsonpath("placement/namespace", ".spec.decision.physicalClusters[*].name")...)
		becomes(t, shop, "", jsonpath("placement/namespace", ".spec.transition.phase")...)
		becomes(t, shop, "1", jsonpath("statefulset/store", ".status.readyReplicas")...)
		is := volumeOf(t, at[to], dir)
		if got, err := os.ReadFile(filepath.Join(is, "table")); err != nil || string(got) != written || is == was {
			t.Errorf("%s has %q, and %s had %q (error %v)", is, got, was, written, err)
		}
		for _, p := range at {
			vanishes(t, p, "volumesnapshots,volumesnapshotcontents", "-A")
		}
		if left, err := os.ReadDir(filepath.Join(dir, "snapshots")); err != nil || len(left) > 0 {
			t.Errorf("in the backend is left %v (error %v)", left, err)
		}
		// The former volume was to be reclaimed.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			if _, err := os.Stat(was); os.IsNotExist(err) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is still there", was)
			}
		}
		from = to
	}
	do(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}
