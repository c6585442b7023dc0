package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// The class of a claim is one of the physical cluster, which says whether a volume of it may grow.
func TestAClaimGrowsWhereItsPhysicalClusterLetsIt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	for name, grows := range map[string]bool{"e2e-growing": true, "e2e-fixed": false} {
		must(t)(theLab.east.Apply(ctx, fmt.Sprintf("{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s}, provisioner: localcluster.atoll.dev/simulated, allowVolumeExpansion: %t}", name, grows)))
		t.Cleanup(func() { must(t)(theLab.east.Run(ctx, "delete", "storageclass", name)) })
	}
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: east}}}"))
	claim := func(name, size string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {storageClassName: e2e-%s, accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}}\n---\n", name, name, size)
	}
	says := func(name, want string) {
		t.Helper()
		eventually(t, func() error {
			got, err := k.In("shop").Run(ctx, "get", "copies", "-o", fmt.Sprintf(`jsonpath={range .items[?(@.spec.object.name==%q)]}{.status.state} {.status.message}{end}`, name))
			if err == nil && !strings.HasPrefix(got, want) {
				err = fmt.Errorf("the Copy of %s says %q, want %q", name, got, want)
			}
			return err
		})
	}
	must(t)(k.In("shop").Apply(ctx, claim("growing", "1Gi")+claim("fixed", "1Gi")))
	for _, name := range []string{"growing", "fixed"} {
		must(t)(k.In("shop").Run(ctx, "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/"+name, "--timeout=3m"))
	}
	below := theLab.east.In(theLab.homeOf(t, k, "shop").namespace)
	must(t)(k.In("shop").Apply(ctx, claim("growing", "2Gi")+claim("fixed", "2Gi")))
	eventually(t, func() error {
		size, err := below.Run(ctx, "get", "pvc", "growing", "-o", "jsonpath={.spec.resources.requests.storage}")
		if err == nil {
			err = want("what is asked for there", size, "2Gi")
		}
		return err
	})
	says("growing", "Synced ")
	says("fixed", `Failed the physical cluster refused it: persistentvolumeclaims "fixed" is forbidden: only dynamically provisioned pvc can be resized`)

	// As from who provisions.
	must(t)(below.Run(ctx, "patch", "pvc", "growing", "--subresource=status", "--type=merge", "-p", `{"status":{"capacity":{"storage":"2Gi"}}}`))
	eventually(t, func() error {
		size, err := k.In("shop").Run(ctx, "get", "pvc", "growing", "-o", "jsonpath={.status.capacity.storage}")
		if err == nil {
			err = want("the capacity", size, "2Gi")
		}
		return err
	})
}
