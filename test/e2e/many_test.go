package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// pictures serves what many may mount.
const pictures = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: pictures}
spec: {storageClassName: disks, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: nginx, volumeMounts: [{name: pictures, mountPath: /pictures}]}]
      volumes: [{name: pictures, persistentVolumeClaim: {claimName: pictures}}]
`

func countOf(n int) string {
	return fmt.Sprintf("{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: many}, spec: {count: %d, move: {drainSeconds: 1}}}", n)
}

// handleAt says with which reclaim policy a physical cluster has a volume with a handle, and whether a claim is bound
// to it; empty if it has none.
func handleAt(ctx context.Context, p *physicalCluster, handle, below string) (string, error) {
	out, err := p.Run(ctx, "get", "persistentvolumes", "-o", "jsonpath={range .items[*]}{.spec.csi.volumeHandle} {.spec.persistentVolumeReclaimPolicy} {.metadata.name}{\"\\n\"}{end}")
	if err != nil {
		return "", err
	}
	var said []string
	for line := range strings.Lines(out) {
		var has, policy, name string
		if _, err := fmt.Sscan(line, &has, &policy, &name); err != nil || has != handle {
			continue
		}
		claims, err := p.In(below).Run(ctx, "get", "persistentvolumeclaims", "-o", "jsonpath={range .items[*]}{.status.phase} {.spec.volumeName} {end}")
		if err != nil {
			return "", err
		}
		if strings.Contains(claims, "Bound "+name+" ") {
			policy += " Bound"
		}
		said = append(said, policy)
	}
	return strings.Join(said, ", "), nil
}

// handlesAre waits until physical clusters have a volume as they should, by name: "Retain Bound", or nothing.
func handlesAre(t *testing.T, handle, below string, all map[*physicalCluster]string) {
	t.Helper()
	eventually(t, func() error {
		for p, expected := range all {
			got, err := handleAt(context.Background(), p, handle, below)
			if err != nil {
				return err
			}
			if err := want("the volume on "+p.name, got, expected); err != nil {
				return err
			}
		}
		return nil
	})
}

// restsOn waits until a namespace is on physical clusters, and on no way.
func restsOn(t *testing.T, k process.Kubectl, namespace string, on ...string) {
	t.Helper()
	eventually(t, func() error {
		var p placementv1alpha1.Placement
		if _, err := k.In(namespace).Get(context.Background(), &p, "placement", placementv1alpha1.NamespaceUnit); err != nil {
			return err
		}
		var names []string
		if p.Spec.Decision != nil {
			for _, c := range p.Spec.Decision.PhysicalClusters {
				names = append(names, c.Name)
			}
		}
		if slices.Sort(names); p.Spec.Transition != nil || !slices.Equal(names, on) {
			return fmt.Errorf("namespace %s is on %v, transition %+v, %+v", namespace, names, p.Spec.Transition, p.Status.Conditions)
		}
		return nil
	})
}

func appliedWith(t *testing.T, k process.Kubectl, manifest string) string {
	t.Helper()
	cmd := k.Command(context.Background(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// A claim that many mount is on two physical clusters, a third one comes, the one that made its volume leaves, what mounts it
// moves, and in the end it is deleted.
func TestAClaimThatManyMountHasOneVolumeEverywhere(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east", "west")
	l.shareDisks(t)
	k := l.newCluster(t)
	must(t)(k.Run(ctx, "create", "namespace", "shop"))
	shop := k.In("shop")
	must(t)(shop.Apply(ctx, countOf(2)))
	must(t)(shop.Apply(ctx, deployment("front", 1)))
	restsOn(t, k, "shop", "east", "west")
	var ns corev1.Namespace
	get(t, k, &ns, "namespace", "shop")
	below := ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
	handle := below + "-pictures"

	must(t)(l.east.Apply(ctx, strings.Replace(l.east.volumeAt(handle, "1Gi", below, "pictures"), "ReadWriteOnce", "ReadWriteMany", 1)))
	if out := appliedWith(t, shop, pictures); strings.Contains(out, "data of its own") {
		t.Errorf("the answer warns of a claim with one volume: %s", out)
	}
	handlesAre(t, handle, below, map[*physicalCluster]string{l.east: "Retain Bound", l.west: "Retain Bound"})
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	must(t)(shop.Run(ctx, "wait", "placement/namespace", "--for=condition=Settled", "--timeout=3m"))

	// One whose volume cannot be handed over has none elsewhere rather than an empty one.
	must(t)(shop.Apply(ctx, strings.Replace(strings.Split(pictures, "---")[0], "name: pictures", "name: plain", 1)))
	eventually(t, func() error {
		said, err := shop.Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Settled")].reason}: {.status.conditions[?(@.type=="Settled")].message}`)
		if err == nil {
			err = want("the placement says", said, "VolumesPending: PersistentVolumeClaim plain is not everywhere yet: its volume cannot be handed over: it is no CSI volume")
		}
		return err
	})
	if out := must(t)(l.west.In(below).Run(ctx, "get", "persistentvolumeclaims", "-o", "name")); strings.TrimSpace(out) != "persistentvolumeclaim/pictures" {
		t.Errorf("west has %s", out)
	}
	must(t)(shop.Run(ctx, "delete", "persistentvolumeclaim/plain", "--timeout=3m"))

	// What one mounts has a volume on each.
	out := appliedWith(t, shop, strings.NewReplacer("name: pictures", "name: once", "ReadWriteMany", "ReadWriteOnce", "disks", "standard").Replace(strings.Split(pictures, "---")[0]))
	if !strings.Contains(out, "Warning: claim once has a volume and data of its own on each of east, west (not all of its access modes are ReadWriteMany or ReadOnlyMany); place it on one physical cluster") {
		t.Errorf("the answer says %s", out)
	}
	must(t)(shop.Run(ctx, "delete", "persistentvolumeclaim/once", "--timeout=3m"))

	// A third one comes.
	south := l.addPhysical(t, "south")
	south.haveDisks(t)
	if err := l.register(ctx, "south", south.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/south", "--type=merge", "-p",
		`{"spec":{"volumes":[{"storageClass":"disks","strategy":"Shared","backend":"san","driver":"disks.example.com","attributes":["pool"]}]}}`))
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/south"))
	must(t)(shop.Apply(ctx, countOf(3)))
	restsOn(t, k, "shop", "east", "south", "west")
	handlesAre(t, handle, below, map[*physicalCluster]string{l.east: "Retain Bound", l.west: "Retain Bound", south: "Retain Bound"})

	// The one that made the volume is drained.
	seen := observe(t, k, "shop")
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/east", "--type=merge", "-p", `{"spec":{"drain":{"requested":true}}}`))
	must(t)(shop.Apply(ctx, countOf(2)))
	restsOn(t, k, "shop", "south", "west")
	handlesAre(t, handle, below, map[*physicalCluster]string{l.east: "", l.west: "Retain Bound", south: "Retain Bound"})
	// Somebody deletes the claim below, and it gets the same volume again.
	must(t)(south.In(below).Run(ctx, "delete", "persistentvolumeclaim/pictures", "--wait=false"))
	must(t)(south.In(below).Run(ctx, "patch", "persistentvolumeclaim/pictures", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`))
	handlesAre(t, handle, below, map[*physicalCluster]string{l.west: "Retain Bound", south: "Retain Bound"})

	// One is left, and has the policy of before; then what serves moves, and does not stop.
	must(t)(shop.Apply(ctx, countOf(1)))
	pin(t, k, "shop", "south")
	restsOn(t, k, "shop", "south")
	handlesAre(t, handle, below, map[*physicalCluster]string{l.west: "", south: "Delete Bound"})
	dry, err := k.Command(ctx, "annotate", "namespace", "shop", "--overwrite", "--dry-run=server", placementv1alpha1.PhysicalClusterAnnotation+"=west").CombinedOutput()
	if err != nil || !strings.Contains(string(dry), "moves from south to west") || strings.Contains(string(dry), "stopped") {
		t.Errorf("the dry run says %q (error %v)", dry, err)
	}
	pin(t, k, "shop", "west")
	restsOn(t, k, "shop", "west")
	handlesAre(t, handle, below, map[*physicalCluster]string{l.west: "Delete Bound", south: ""})
	if least, _ := seen.read(); least < 2 {
		t.Errorf("there was a moment with %d ready endpoints:\n%s", least, seen.seen())
	}

	// Deleted, the last one has the policy of before.
	must(t)(k.Run(ctx, "annotate", "namespace", "shop", placementv1alpha1.PhysicalClusterAnnotation+"-"))
	must(t)(shop.Apply(ctx, countOf(2)))
	restsOn(t, k, "shop", "south", "west")
	handlesAre(t, handle, below, map[*physicalCluster]string{l.west: "Retain Bound", south: "Retain Bound"})
	must(t)(shop.Run(ctx, "delete", "deployment/web", "persistentvolumeclaim/pictures", "--timeout=3m"))
	handlesAre(t, handle, below, map[*physicalCluster]string{l.west: "Delete", south: ""})
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}
