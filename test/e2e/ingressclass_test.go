package e2e

import (
	"context"
	"slices"
	"testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// The class of an Ingress is on the physical cluster that comes last otherwise. The first report of it, and of the priority
// classes that each cluster has, says so. One that is not there yet is said on the Copy until it is.
func TestAnIngressGoesWhereItsClassIs(t *testing.T) {
	long(t)
	ctx := context.Background()
	const class = "front-of-west"
	must(t)(theLab.west.Apply(ctx, "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: "+class+"}, spec: {controller: example.com/front}}"))
	t.Cleanup(func() { _, _ = theLab.west.Run(ctx, "delete", "ingressclass", class) })
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		eventually(t, func() error {
			var pc fleetv1alpha1.PhysicalCluster
			if _, err := theLab.root.Get(ctx, &pc, "physicalcluster", p.name); err != nil {
				return err
			}
			priorities := slices.Contains(pc.Status.PriorityClasses.Reported(), "system-node-critical")
			return want("reported of "+p.name, []bool{pc.Status.IngressClasses != nil, slices.Contains(pc.Status.IngressClasses.Reported(), class), priorities}, []bool{true, p == theLab.west, true})
		})
	}
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: front}, spec: {ingressClassName: "+class+", defaultBackend: {service: {name: front, port: {number: 80}}}}}"))
	must(t)(k.Apply(ctx, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: front}, spec: {selector: {matchLabels: {app: front}}, template: {metadata: {labels: {app: front}}, spec: {containers: [{name: c, image: nginx}]}}}}"))
	at := theLab.homeOf(t, k, "default")
	if at.physicalCluster != theLab.west {
		t.Fatalf("it is on %s", at.name)
	}
	const later = class + "-later"
	must(t)(k.Apply(ctx, "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: back}, spec: {ingressClassName: "+later+", defaultBackend: {service: {name: back, port: {number: 80}}}}}"))
	eventually(t, func() error {
		return copyOf(k, "ingresses", "back", placementv1alpha1.CopySynced, syncer.ReasonNoClass)
	})
	must(t)(theLab.west.Apply(ctx, "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: "+later+"}, spec: {controller: example.com/front}}"))
	t.Cleanup(func() { _, _ = theLab.west.Run(ctx, "delete", "ingressclass", later) })
	eventually(t, func() error { return copyOf(k, "ingresses", "back", placementv1alpha1.CopySynced, "") })
	eventually(t, func() error {
		below, err := at.below().Run(ctx, "get", "ingress", "front", "-o", "jsonpath={.spec.ingressClassName}")
		if err != nil {
			return err
		}
		return want("the class below", below, class)
	})
}
