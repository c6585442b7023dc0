package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

// entries are a load balancer, and an Ingress that leads to its pods and to some that are nowhere.
const entries = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - host: nowhere.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /db, pathType: Prefix, backend: {service: {name: db, port: {number: 80}}}}
`

// Who takes an address of a physical cluster that has none of the pods is refused, while another one would serve him.
func TestAnAddressOfAPlaceWithoutPodsIsLeftOutBesideOthers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: nowhere}}"))
	shop := k.In("nowhere")
	must(t)(shop.Apply(ctx, divided))
	must(t)(shop.Apply(ctx, entries))
	must(t)(shop.Run(ctx, "create", "deployment", "web", "--image=nginx"))
	below := must(t)(k.Run(ctx, "get", "namespace", "nowhere", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`))
	for _, at := range []struct {
		cluster *physicalCluster
		address string
	}{{theLab.east, oldAddress}, {theLab.west, newAddress}} {
		there := at.cluster.In(below)
		for _, what := range []string{"service/web", "ingress/web"} {
			eventually(t, func() error { _, err := there.Run(ctx, "get", what); return err })
			give(t, there, what, at.address)
		}
	}
	have := func(want string) {
		t.Helper()
		for _, what := range []string{"service/web", "ingress/web"} {
			eventually(t, func() error {
				got, err := shop.Run(ctx, "get", what, "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}")
				if err == nil && got != want {
					err = fmt.Errorf("%s has the addresses %q, want %q", what, got, want)
				}
				return err
			})
		}
	}
	says := func(message string) {
		t.Helper()
		eventually(t, func() error {
			got, err := shop.Run(ctx, "get", "service", "web", "-o", `jsonpath={.status.conditions[?(@.type=="`+syncer.AddressesCondition+`")].message}`)
			if err != nil {
				return err
			}
			return want("what the Service says", got, message)
		})
	}
	both := oldAddress + " " + newAddress
	have(oldAddress)
	says("no pod is ready on west, where clients are not sent")
	must(t)(shop.Run(ctx, "scale", "deployment", "web", "--replicas=2"))
	have(both)
	says("")
	must(t)(shop.Run(ctx, "scale", "deployment", "web", "--replicas=1"))
	have(oldAddress)
	must(t)(shop.Run(ctx, "scale", "deployment", "web", "--replicas=0"))
	have(both) // as by a cluster of its own: none leads anywhere
}
