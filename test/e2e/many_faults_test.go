package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// settledSays waits until a Placement says why it is not settled.
func settledSays(t *testing.T, k process.Kubectl, words ...string) {
	t.Helper()
	eventually(t, func() error {
		said, err := k.Run(context.Background(), "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Settled")].reason}: {.status.conditions[?(@.type=="Settled")].message}`)
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(said, word) {
				return fmt.Errorf("the placement says %q, without %q", said, word)
			}
		}
		return nil
	})
}

// manyOn places the namespace shop on two physical clusters; below is what it is called there.
func manyOn(t *testing.T, k process.Kubectl, on ...string) (shop process.Kubectl, below string) {
	t.Helper()
	ctx := context.Background()
	must(t)(k.Run(ctx, "create", "namespace", "shop"))
	shop = k.In("shop")
	must(t)(shop.Apply(ctx, countOf(len(on))))
	must(t)(shop.Apply(ctx, deployment("front", 1)))
	restsOn(t, k, "shop", on...)
	var ns corev1.Namespace
	get(t, k, &ns, "namespace", "shop")
	return shop, ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
}

// diskOfMany is volumeAt for a claim that many mount.
func (p *physicalCluster) diskOfMany(handle, below string) string {
	return strings.Replace(p.volumeAt(handle, "1Gi", below, "pictures"), "ReadWriteOnce", "ReadWriteMany", 1)
}

// What makes the volume is silent at first. Then physical clusters are restored from backups: of before they had the
// volume, and of when it was theirs alone.
func TestAVolumeOfManyOutlivesPhysicalClustersThatGoBack(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east", "west")
	l.east.driver, l.west.driver = "disks.example.com", "disks.example.com"
	l.shareDisks(t)
	k := l.newCluster(t)
	shop, below := manyOn(t, k, "east", "west")
	handle := below + "-pictures"
	must(t)(shop.Run(ctx, "wait", "placement/namespace", "--for=condition=Settled", "--timeout=3m"))
	before := map[*physicalCluster]string{}
	for _, p := range l.physicalClusters() {
		before[p] = backUp(t, p.Process, l.path(p.name, "etcd"))
	}
	both := map[*physicalCluster]string{l.east: "Retain Bound", l.west: "Retain Bound"}
	claimsOn := func(p *physicalCluster) string {
		return must(t)(p.In(below).Run(ctx, "get", "persistentvolumeclaims", "-o", "name"))
	}

	must(t)(shop.Apply(ctx, pictures))
	settledSays(t, shop, "VolumesPending", "PersistentVolumeClaim pictures is not everywhere yet")
	if out := claimsOn(l.west); out != "" {
		t.Errorf("west has %s", out)
	}
	must(t)(l.east.Apply(ctx, l.east.diskOfMany(handle, below)))
	handlesAre(t, handle, below, both)

	// Who was handed the volume has it again; who made it makes no empty one, and gets it when it comes back.
	restore(t, l.west.Process, l.path("west", "etcd"), before[l.west])
	handlesAre(t, handle, below, both)
	restore(t, l.east.Process, l.path("east", "etcd"), before[l.east])
	settledSays(t, shop, "CopiesFailed", "east: PersistentVolumeClaim pictures", "a new one would be empty")
	if out := claimsOn(l.east); out != "" {
		t.Errorf("east has %s", out)
	}
	must(t)(shop.Apply(ctx, countOf(1)))
	pin(t, k, "shop", "west")
	restsOn(t, k, "shop", "west")
	handlesAre(t, handle, below, map[*physicalCluster]string{l.west: "Delete Bound"})
	must(t)("", os.Rename(before[l.west], before[l.west]+"-before")) // the next one has its name
	alone := backUp(t, l.west.Process, l.path("west", "etcd"))
	must(t)(k.Run(ctx, "annotate", "namespace", "shop", placementv1alpha1.PhysicalClusterAnnotation+"-"))
	must(t)(shop.Apply(ctx, countOf(2)))
	handlesAre(t, handle, below, both)

	// While the Namespace goes from west, which somebody there holds, that is restored: with the claim, and a volume that
	// would go along. An admin says that what came back may go, without its data.
	must(t)(l.west.In(below).Apply(ctx, "{apiVersion: v1, kind: ConfigMap, metadata: {name: hold, finalizers: [example.com/hold]}}"))
	must(t)(shop.Apply(ctx, countOf(1)))
	pin(t, k, "shop", "east")
	restsOn(t, k, "shop", "east")
	handlesAre(t, handle, below, map[*physicalCluster]string{l.east: "Delete Bound", l.west: ""})
	restore(t, l.west.Process, l.path("west", "etcd"), alone)
	keptForOrphans(t, k, "shop", "west")
	if out := claimsOn(l.west); out == "" {
		t.Error("the claim that came back is gone, and nobody ordered that")
	}
	orderAll(t, l, "west", "Remove")
	eventually(t, func() error {
		out, err := l.root.Run(ctx, "get", "orphans")
		if err != nil || !strings.Contains(out, "Refused") || !strings.Contains(out, "ObjectExists") {
			return fmt.Errorf("nobody refuses to remove what exists elsewhere: %v\n%s", err, out)
		}
		return nil
	})
	for _, o := range strings.Fields(must(t)(l.root.Run(ctx, "get", "orphans", "-o", "name"))) {
		must(t)(l.root.Run(ctx, "patch", o, "--type=merge", "-p", `{"spec":{"order":"Discard"}}`))
	}
	eventually(t, func() error { return gone(l.west.Kubectl, "namespace", below) })
	handlesAre(t, handle, below, map[*physicalCluster]string{l.east: "Delete Bound", l.west: "Retain"})
}

// Of two servers over one etcd one is killed whenever the volume of a claim that many mount comes or goes.
func TestAVolumeOfManyOutlivesServersThatAreKilled(t *testing.T) {
	long(t)
	ctx := context.Background()
	p := startServerPair(t)
	for _, at := range []**physicalCluster{&p.east, &p.west} {
		name := map[**physicalCluster]string{&p.east: "east", &p.west: "west"}[at]
		*at = p.addPhysical(t, name)
		if err := p.register(ctx, name, (*at).Kubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	must(t)(p.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/east", "physicalcluster/west"))
	p.east.driver, p.west.driver = "disks.example.com", "disks.example.com"
	p.shareDisks(t)
	k := process.Kubectl{Kubeconfig: p.path("server-0", "admin.kubeconfig"), Context: "shop"}
	shop, below := manyOn(t, k, "east", "west")
	handle := below + "-pictures"
	must(t)(p.east.Apply(ctx, p.east.diskOfMany(handle, below)))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i, c := range []struct {
		what       string
		do         func()
		east, west string
	}{
		{"comes", func() { must(t)(shop.Apply(ctx, pictures)) }, "Retain Bound", "Retain Bound"},
		{"leaves the one that made it", func() { must(t)(shop.Apply(ctx, countOf(1))); pin(t, k, "shop", "west") }, "", "Delete Bound"},
		{"comes back", func() {
			must(t)(k.Run(ctx, "annotate", "namespace", "shop", placementv1alpha1.PhysicalClusterAnnotation+"-"))
			must(t)(shop.Apply(ctx, countOf(2)))
		}, "Retain Bound", "Retain Bound"},
		{"is deleted", func() {
			must(t)(shop.Run(ctx, "delete", "deployment/web", "persistentvolumeclaim/pictures", "--wait=false"))
		}, "", "Delete"},
	} {
		began := time.Now()
		c.do()
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		victim := p.servers[i%2]
		victim.Kill()
		restart(t, victim)
		p.awaitBalancer(t, i%2, true)
		handlesAre(t, handle, below, map[*physicalCluster]string{p.east: c.east, p.west: c.west})
		t.Logf("%s: %s", c.what, time.Since(began).Round(time.Second))
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}
