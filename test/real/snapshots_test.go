//go:build linux

package real

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/framework/snapshots"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// petsWithData is a StatefulSet whose claim has a volume of the driver.
const petsWithData = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  replicas: 1
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: tools, image: ` + lab.ToolsImage + `, args: [hold], volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: directories, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// TestAPodReadsWhatItWroteBeforeItsVolumeWasRestoredElsewhere moves a StatefulSet by snapshots, there and back: kubelets
// mount what its pods write and read.
func TestAPodReadsWhatItWroteBeforeItsVolumeWasRestoredElsewhere(t *testing.T) {
	driver := built(t, "directories")
	for _, p := range theLab.Physical {
		snapshotted(t, p, driver)
	}
	declare(t, "")
	for _, p := range theLab.Physical {
		patch(t, p.Name, snapshots.Patch(lab.CopyImage))
	}
	n := newTenant(t, "snapshotted")
	shop := n.namespace(t, "shop", "east")
	must(t)(shop.Apply(t.Context(), policy()))
	must(t)(shop.Apply(t.Context(), petsWithData))
	must(t)(shop.Run(t.Context(), "rollout", "status", "statefulset/store", "--timeout=3m"))
	becomes(t, shop, "Running", "get", "pod/store-0", "-o", "jsonpath={.status.phase}")
	for i, to := range []string{"west", "east"} {
		row := filepath.Join(t.TempDir(), "table")
		if err := os.WriteFile(row, []byte{'r', 'o', 'w', byte('0' + i)}, 0o644); err != nil {
			t.Fatal(err)
		}
		must(t)(shop.Run(t.Context(), "cp", row, "store-0:/data/table"))
		must(t)(n.Run(t.Context(), "annotate", "namespace", "shop", "--overwrite", "placement.atoll.dev/cluster="+to))
		becomes(t, shop, to, "get", "placement", "namespace", "-o", "jsonpath={.spec.decision.physicalClusters[*].name}{.spec.transition.phase}")
		must(t)(shop.Run(t.Context(), "rollout", "status", "statefulset/store", "--timeout=3m"))
		eventually(t, func() error {
			got, err := shop.in(t.Context(), "pod/store-0", "cat", "/data/table")
			if want := "row" + string(byte('0'+i)); err == nil && got != want {
				t.Fatalf("on %s it reads %q, and wrote %q", to, got, want)
			}
			return err
		})
	}
}

// snapshotted runs the driver beside the kubelet of a physical cluster, and what makes and snapshots volumes, until the test ends.
func snapshotted(t *testing.T, p *lab.PhysicalCluster, driver string) {
	t.Helper()
	socket := theLab.Path("csi-" + p.Name + ".sock")
	programs := append([][]string{{driver, socket, theLab.Path("directories"), p.NodeName(), p.PluginRegistry()}},
		snapshots.Programs(func(name string) string { return built(t, name) }, p.Kubeconfig, socket)...)
	for _, file := range snapshots.Definitions(sources(t, "snapshots", snapshots.Module)) {
		must(t)(p.Run(t.Context(), "apply", "--server-side", "-f", file))
	}
	must(t)(p.Run(t.Context(), "wait", "--for=condition=Established", "--timeout=1m", "crd", "--all"))
	must(t)(p.Apply(t.Context(), snapshots.Objects))
	t.Cleanup(func() {
		must(t)(p.Run(context.Background(), "delete", "storageclass/directories", "csidriver/directories.example.com"))
	})
	for _, program := range programs {
		name := filepath.Base(program[0]) + "-" + p.Name
		ready := map[string]string{driver: "serves at"}[program[0]]
		s, err := process.Start(t.Context(), process.Spec{Path: program[0], Args: program[1:], Log: theLab.Path(name + ".log"), Ready: ready})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("end of the log of %s:\n%s", name, s.LogTail())
			}
			s.Kill()
		})
	}
}
