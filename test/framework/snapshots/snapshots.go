// Package snapshots has the volumes of physical clusters be directories of this machine, made, mounted and snapshotted
// by the programs that clusters run for that: those of hack/operators.sh snapshots.
package snapshots

import (
	"fmt"
	"path/filepath"
)

// Module is where the definitions of snapshots are, see Definitions.
const Module = "github.com/kubernetes-csi/external-snapshotter/client/v8"

// Objects are a class of volumes of the driver of test/e2e/operators/modules/snapshots, which makes no attachments, and
// one of snapshots.
const Objects = `
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: directories.example.com}, spec: {attachRequired: false}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: directories}, provisioner: directories.example.com, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: moves}, driver: directories.example.com, deletionPolicy: Delete}
`

// Definitions are the files of the CRDs, in the sources of Module.
func Definitions(sources string) []string {
	var out []string
	for _, kind := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		out = append(out, filepath.Join(sources, "config", "crd", "snapshot.storage.k8s.io_"+kind+".yaml"))
	}
	return out
}

// Programs are snapshot-controller, and the sidecars of the driver at a socket; built says where a program is.
func Programs(built func(program string) string, kubeconfig, socket string) [][]string {
	return [][]string{
		{built("snapshot-controller"), "--kubeconfig", kubeconfig, "--http-endpoint", ""},
		{built("csi-snapshotter"), "--kubeconfig", kubeconfig, "--csi-address", socket},
		{built("csi-provisioner"), "--kubeconfig", kubeconfig, "--csi-address", socket},
	}
}

// Patch declares of a PhysicalCluster that volumes of the class move by snapshots, and that the former ones go. A pod of
// the image mounts what was restored.
func Patch(image string) string {
	return fmt.Sprintf(`{"spec":{"volumes":[{"storageClass":"directories","strategy":"Snapshot","backend":"directories",`+
		`"driver":"directories.example.com","snapshot":{"volumeSnapshotClass":"moves","image":%q,"formerVolume":"Reclaim"}}]}}`, image)
}
