package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// haveDisks makes the class of volumes of one backend that east and west reach. Several tests do,
// and of two that make it at once one is refused.
func (p *physicalCluster) haveDisks(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		_, err := p.Apply(context.Background(), "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: "+p.diskClass()+"}, provisioner: "+cmp.Or(p.driver, "kubernetes.io/no-provisioner")+"}")
		return err
	})
}

// database has what must not run twice, and what it keeps: by a claim of its own, and by one that
// it makes from a template.
const database = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: moves}
spec: {move: {drainSeconds: 0}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: own}
spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: postgres, volumeMounts: [{name: data, mountPath: /data}, {name: own, mountPath: /own}]}]
      volumes: [{name: own, persistentVolumeClaim: {claimName: own}}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// volumeAt is a disk that was made for a claim.
func (p *physicalCluster) volumeAt(name, size, namespace, claim string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %[1]s}, spec: {storageClassName: %[5]s, persistentVolumeReclaimPolicy: Delete,
  accessModes: [ReadWriteOnce], capacity: {storage: %[2]s}, claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: %[3]s, name: %[4]s},
  csi: {driver: disks.example.com, volumeHandle: %[1]s, volumeAttributes: {pool: fast}}}}`, name, size, namespace, claim, p.diskClass())
}

// shareDisks declares that east and west reach the same disks.
func (l *lab) shareDisks(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	for _, p := range l.physicalClusters() {
		p.haveDisks(t)
		must(t)(l.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=merge", "-p",
			`{"spec":{"volumes":[{"storageClass":"`+p.diskClass()+`","strategy":"Shared","backend":"san","driver":"disks.example.com","attributes":["pool"]}]}}`))
	}
	for _, p := range l.physicalClusters() {
		eventually(t, func() error {
			out, err := l.root.Run(ctx, "get", "physicalcluster/"+p.name, "-o", "jsonpath={.status.storageClasses}")
			if err == nil && !strings.Contains(out, `"`+p.diskClass()+`"`) {
				err = fmt.Errorf("the storage classes of %s are %s", p.name, out)
			}
			return err
		})
	}
}

// startDatabase has the database run on a physical cluster, with volumes of its own there.
func (l *lab) startDatabase(t *testing.T, k process.Kubectl, namespace string, on *physicalCluster) (below string) {
	t.Helper()
	ctx := context.Background()
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", annotations: {placement.atoll.dev/cluster: "+on.name+"}}}"))
	db := k.In(namespace)
	must(t)(db.Apply(ctx, "{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}\n---\n"+deployment("front", 1)))
	below = l.homeOf(t, k, namespace).namespace
	must(t)(on.Apply(ctx, on.volumeAt(below+"-data", "1Gi", below, "data-db-0")))
	must(t)(on.Apply(ctx, on.volumeAt(below+"-own", "2Gi", below, "own")))
	must(t)(db.Apply(ctx, database))
	must(t)(db.Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	for _, claim := range []string{"own", "data-db-0"} {
		eventually(t, func() error {
			out, err := db.Run(ctx, "get", "persistentvolumeclaim/"+claim, "-o", "jsonpath={.status.phase}")
			if err == nil {
				err = want("phase of "+claim, out, "Bound")
			}
			return err
		})
	}
	return below
}

// hasVolumes waits until the claims of a namespace have their volumes on a physical cluster, as
// they were, and nothing of these is on the other one.
func hasVolumes(t *testing.T, on, other *physicalCluster, below string) {
	t.Helper()
	ctx := context.Background()
	eventually(t, func() error {
		out, err := on.In(below).Run(ctx, "get", "persistentvolumeclaims", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.spec.storageClassName} {.spec.volumeName}{\"\\n\"}{end}")
		if err != nil {
			return err
		}
		bound := map[string]string{}
		for line := range strings.Lines(out) {
			var name, phase, class, volume string
			if _, err := fmt.Sscan(line, &name, &phase, &class, &volume); err != nil || phase != "Bound" || class != on.diskClass() {
				return fmt.Errorf("on %s: %s", on.name, out)
			}
			bound[name] = volume
		}
		for claim, handle := range map[string]string{"data-db-0": below + "-data", "own": below + "-own"} {
			var pv corev1.PersistentVolume
			if ok, err := on.Get(ctx, &pv, "persistentvolume", bound[claim]); err != nil || !ok {
				return fmt.Errorf("on %s the claims are bound to %v: %v", on.name, bound, err)
			}
			if pv.Spec.CSI == nil || pv.Spec.CSI.VolumeHandle != handle || pv.Spec.CSI.VolumeAttributes["pool"] != "fast" {
				return fmt.Errorf("on %s claim %s has the volume %+v, want the handle %s", on.name, claim, pv.Spec.CSI, handle)
			}
			if err := want("reclaim policy", pv.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimDelete); err != nil {
				return err
			}
		}
		out, err = other.Run(ctx, "get", "persistentvolumes", "-o", "jsonpath={.items[*].spec.csi.volumeHandle}")
		if err == nil && strings.Contains(out, below+"-") {
			err = fmt.Errorf("on %s are still %s", other.name, out)
		}
		return err
	})
}

func TestAStatefulSetMovesWithItsVolumes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	theLab.shareDisks(t)
	k := theLab.newCluster(t)
	below := theLab.startDatabase(t, k, "shop", theLab.west)

	dry := k.Command(ctx, "annotate", "namespace", "shop", "--overwrite", "--dry-run=server", placementv1alpha1.PhysicalClusterAnnotation+"=east")
	out, err := dry.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "stopped before they are started there: StatefulSet db") {
		t.Errorf("the dry run says %q (error %v)", out, err)
	}
	pin(t, k, "shop", "east")
	settled(t, k, "shop", "east")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	hasVolumes(t, theLab.east, theLab.west, below)

	// And back, after a change of mind on the way.
	pin(t, k, "shop", "west")
	pin(t, k, "shop", "east")
	pin(t, k, "shop", "west")
	settled(t, k, "shop", "west")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	hasVolumes(t, theLab.west, theLab.east, below)
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

// The server, in which the syncers run, dies while volumes are handed over, and the physical
// cluster that gets them does not answer. Each of them has a name of its own for the class.
func TestVolumesAreKeptWhileTheyAreHandedOver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t, "east", "west")
	l.east.disks, l.west.disks = "gold", "silver"
	for _, p := range l.physicalClusters() {
		must(t)(l.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=merge", "-p",
			`{"spec":{"tenancy":{"storageClassNames":{"disks":"`+p.disks+`"},"ingressClassNames":{"*":"`+p.disks+`"}}}}`))
	}
	l.shareDisks(t)
	k := l.newCluster(t)
	below := l.startDatabase(t, k, "shop", l.west)
	must(t)(k.In("shop").Apply(ctx, "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: front}, spec: {ingressClassName: nginx, defaultBackend: {service: {name: front, port: {number: 80}}}}}"))
	must(t)(l.west.Apply(ctx, `{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: `+below+`}, spec: {attacher: disks.example.com, nodeName: far, source: {persistentVolumeName: `+below+`-data}}}`))
	pin(t, k, "shop", "east")
	reaches(t, k, placementv1alpha1.TransitionRemoving)
	// What is attached is not released.
	eventually(t, func() error {
		out, err := k.In("shop").Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].message}`)
		if err == nil && !strings.Contains(out, "PersistentVolumeClaim data-db-0 on west: its volume is not released yet: it is used by node far") {
			err = fmt.Errorf("the placement says %q", out)
		}
		return err
	})
	if out := must(t)(l.east.In(below).Run(ctx, "get", "persistentvolumeclaims", "-o", "name")); out != "" {
		t.Errorf("east has %s already", out)
	}
	frozen(t, l.east)
	must(t)(l.west.Run(ctx, "delete", "volumeattachment", below))
	reaches(t, k, placementv1alpha1.TransitionHandingOver)
	l.server.Kill()
	restart(t, l.server)
	if err := want("phase", phaseOf(t, k), placementv1alpha1.TransitionHandingOver); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"data", "own"} {
		policy := must(t)(l.west.Run(ctx, "get", "persistentvolume", below+"-"+name, "-o", "jsonpath={.spec.persistentVolumeReclaimPolicy} {.status.phase}"))
		if err := want("the volume on west", policy, "Retain Bound"); err != nil {
			t.Error(err)
		}
	}
	if err := l.east.Thaw(); err != nil {
		t.Fatal(err)
	}
	settled(t, k, "shop", "east")
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	hasVolumes(t, l.east, l.west, below)
	above := must(t)(k.In("shop").Run(ctx, "get", "persistentvolumeclaims,ingresses", "-o", "jsonpath={.items[*].spec['storageClassName','ingressClassName']}"))
	if err := want("classes in the logical cluster", above, "disks disks nginx"); err != nil {
		t.Error(err)
	}
	there := must(t)(l.east.In(below).Run(ctx, "get", "ingress/front", "-o", "jsonpath={.spec.ingressClassName}"))
	if err := want("class on east", there, "gold"); err != nil {
		t.Error(err)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

func TestAClaimWhoseVolumesAreNotSharedKeepsItsNamespace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: kept, annotations: {placement.atoll.dev/cluster: west}}}"))
	kept := k.In("kept")
	must(t)(kept.Apply(ctx, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: own}, spec: {storageClassName: standard, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"))
	must(t)(kept.Run(ctx, "wait", "--for=jsonpath={.status.phase}=Bound", "persistentvolumeclaim/own", "--timeout=3m"))
	pin(t, k, "kept", "east")
	must(t)(kept.Run(ctx, "wait", "placement/namespace", "--for=condition=Moving=False", "--timeout=1m"))
	message := must(t)(kept.Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].reason}: {.status.conditions[?(@.type=="Moving")].message}`))
	if err := want("the placement", message, "Blocked: PersistentVolumeClaim own: its volume is on west and does not move (volumes of class standard do not move from west); "+
		"delete the claim once its data are safe elsewhere"); err != nil {
		t.Error(err)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "kept", "--timeout=3m"))
}

// West says that a claim there has the volume of another tenant.
func TestAVolumeThatAnotherClaimHasIsNotHandedOver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	theLab.shareDisks(t)
	victim, thief := theLab.newCluster(t), theLab.newCluster(t)
	below := theLab.startDatabase(t, victim, "shop", theLab.east)
	must(t)(thief.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: thief, annotations: {placement.atoll.dev/cluster: west}}}"))
	must(t)(thief.In("thief").Apply(ctx, "{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}\n---\n"+deployment("front", 1)))
	own := theLab.homeOf(t, thief, "thief").namespace
	forged := strings.Replace(theLab.west.volumeAt(own+"-own", "2Gi", own, "own"), "volumeHandle: "+own+"-own", "volumeHandle: "+below+"-own", 1)
	must(t)(theLab.west.Apply(ctx, forged))
	must(t)(thief.In("thief").Apply(ctx, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: own}, spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}"))
	must(t)(thief.In("thief").Run(ctx, "wait", "--for=jsonpath={.status.phase}=Bound", "persistentvolumeclaim/own", "--timeout=3m"))
	pin(t, thief, "thief", "east")
	eventually(t, func() error {
		out, err := thief.In("thief").Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].message}`)
		if err == nil && !strings.Contains(out, "PersistentVolumeClaim own on west: another claim has the same volume in the backend san") {
			err = fmt.Errorf("the placement says %q", out)
		}
		return err
	})
	if out := must(t)(theLab.east.In(own).Run(ctx, "get", "persistentvolumeclaims", "-o", "name")); out != "" {
		t.Errorf("east has %s", out)
	}
	pin(t, thief, "thief", "west")
	settled(t, thief, "thief", "west")
	must(t)(thief.Run(ctx, "delete", "namespace", "thief", "--timeout=3m"))
	must(t)(victim.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

// TestVolumesMoveAsThePageSays types what docs/volumes.md shows.
func TestVolumesMoveAsThePageSays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	page, err := os.ReadFile(filepath.Join(process.Root(), "docs", "volumes.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		p.haveDisks(t)
	}
	d := newDesk(t)
	d.write("database.yaml", []byte(database))
	var printed strings.Builder
	types := func(script string) {
		t.Helper()
		out, err := d.types("set -x\n" + script)
		if printed.WriteString(out); err != nil {
			t.Fatalf("%v\n%s", err, printed.String())
		}
	}
	types("kubectl atoll register east --physical-kubeconfig east.kubeconfig\nkubectl atoll register west --physical-kubeconfig west.kubeconfig\nkubectl atoll lc create pages\nkubectl atoll lc use pages")
	for _, name := range []string{"pages-data", "pages-own"} {
		volume := theLab.west.volumeAt(name, "2Gi", "", "")
		must(t)(theLab.west.Apply(ctx, strings.Replace(volume, " claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: , name: },", "", 1)))
	}
	blocks := shellBlock.FindAllSubmatch(page, -1)
	if len(blocks) < 2 {
		t.Fatal("the page shows nothing to type")
	}
	for _, block := range blocks {
		types(string(block[1]))
	}
	for _, want := range []string{"physicalcluster.fleet.atoll.dev/west patched", "stopped before they are started there: StatefulSet db", "namespace/shop moves to east"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q was not printed", want)
		}
	}
	eventually(t, func() error {
		out, err := theLab.east.Run(ctx, "get", "persistentvolumes", "-o", "jsonpath={.items[*].spec.csi.volumeHandle}")
		if err == nil && !(strings.Contains(out, "pages-data") && strings.Contains(out, "pages-own")) {
			err = fmt.Errorf("on east are the volumes %s", out)
		}
		return err
	})
	types("kubectl delete namespace shop --timeout=3m\nkubectl atoll lc use root\nkubectl atoll lc delete pages")
	if t.Failed() {
		t.Log(printed.String())
	}
}
