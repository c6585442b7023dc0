package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// flat has physical clusters share a network until the test ends.
func (l *lab) flat(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		must(t)(l.root.Run(context.Background(), "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"pods":{"network":"flat"}}}`))
		t.Cleanup(func() {
			must(t)(l.root.Run(context.Background(), "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"pods":{"network":null}}}`))
		})
	}
}

// pets are two pods with names behind two Services.
const pets = `
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {ports: [{name: http, port: 80, targetPort: 8080}], selector: {app: pets}}
---
apiVersion: v1
kind: Service
metadata: {name: pets}
spec: {clusterIP: None, ports: [{name: http, port: 80}], selector: {app: pets}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: pet}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  serviceName: pets
  selector: {matchLabels: {app: pets}}
  template: {metadata: {labels: {app: pets}}, spec: {containers: [{name: a, image: i}]}}
`

// addressesBehind are the addresses in the EndpointSlices of a Service of a physical cluster,
// sorted; made are those that its own controllers did not write.
func addressesBehind(k process.Kubectl, service string) (all, made []string, err error) {
	var list discoveryv1.EndpointSliceList
	if _, err := k.Get(context.Background(), &list, "endpointslices", "-l", discoveryv1.LabelServiceName+"="+service); err != nil {
		return nil, nil, err
	}
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			all = append(all, e.Addresses...)
			if s.Labels[discoveryv1.LabelManagedBy] != "endpointslice-controller.k8s.io" {
				made = append(made, e.Addresses...)
			}
		}
	}
	slices.Sort(all)
	slices.Sort(made)
	return all, made, nil
}

// A pod on west resolves Services that are on east, and finds their pods; a Service moves
// there and the name always leads somewhere; what is not needed any more goes.
func TestServicesOnAnotherPhysicalClusterAreReachedWhereTheNetworkIsFlat(t *testing.T) {
	long(t)
	ctx := context.Background()
	if err := process.Missing("atoll-dns"); err != nil {
		t.Skip(err)
	}
	l := newLab(t, "east", "west")
	s := l.startDNS(t, l.west)
	l.offerNames(t, l.west)
	l.flat(t, "east", "west")

	k := l.newCluster(t)
	for namespace, on := range map[string]string{"shop": "east", "web": "west"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", annotations: {placement.atoll.dev/cluster: "+on+"}}}"))
		must(t)(k.In(namespace).Apply(ctx, pets))
	}
	shop, web := k.In("shop"), k.In("web")
	for _, n := range []process.Kubectl{shop, web} {
		must(t)(n.Run(ctx, "rollout", "status", "statefulset/pet", "--timeout=3m"))
	}
	r := s.resolver("udp", l.portAt(t, l.west, l.homeOf(t, k, "web").below()))
	resolves := func(name, want string) {
		t.Helper()
		eventually(t, func() error {
			if got := lookup(r, name+".svc.cluster.local."); got != want {
				return fmt.Errorf("%s leads to %s, want %s", name, got, want)
			}
			return nil
		})
	}
	addresses := func(n process.Kubectl) string {
		t.Helper()
		all := strings.Fields(must(t)(n.Run(ctx, "get", "pods", "-l", "app=pets", "-o", "jsonpath={.items[*].status.podIP}")))
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	dns := l.west.In(dnsNamespace)
	// imported is the Service on west that leads to one in the namespace shop.
	imported := func(name string) string {
		out, err := dns.Run(ctx, "get", "services", "-l", "atoll.dev/import", "-o",
			`jsonpath={range .items[*]}{.metadata.annotations.atoll\.dev/namespace}/{.metadata.annotations.atoll\.dev/service} {.metadata.name} {.spec.clusterIP} {.metadata.annotations.atoll\.dev/retired}{"\n"}{end}`)
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(out) {
			if rest, ok := strings.CutPrefix(line, "shop/"+name+" "); ok {
				return strings.TrimSpace(rest)
			}
		}
		return ""
	}

	on := addresses(shop)
	resolves("pets.shop", on)
	resolves("pet-1.pets.shop", strings.TrimSpace(must(t)(shop.Run(ctx, "get", "pod", "pet-1", "-o", "jsonpath={.status.podIP}"))))
	var below, address string
	eventually(t, func() error {
		below, address, _ = strings.Cut(imported("api"), " ")
		if address == "" {
			return fmt.Errorf("nothing on west leads to the Service on east: %q", below)
		}
		return nil
	})
	resolves("api.shop", address)
	eventually(t, func() error {
		all, _, err := addressesBehind(dns, below)
		if err != nil {
			return err
		}
		return want("the endpoints on west of a Service on east", strings.Join(all, " "), on)
	})
	if got := must(t)(shop.Run(ctx, "get", "serviceimport", "api", "-o", "jsonpath={.spec.importers}")); got != `[{"beside":true,"network":"flat","physicalCluster":"east"},{"network":"flat","own":true,"physicalCluster":"west"}]` {
		t.Errorf("the importers are %s", got)
	}
	if out, err := shop.Run(ctx, "delete", "serviceimport", "api"); err == nil {
		t.Errorf("a user deletes an import: %s", out)
	}

	// It moves to where it is asked for: the name always leads somewhere, in the end to the copy.
	must(t)(k.Run(ctx, "annotate", "namespace", "shop", "placement.atoll.dev/cluster=west", "--overwrite"))
	copied := ""
	eventually(t, func() error {
		if got := lookup(r, "api.shop.svc.cluster.local."); got == "none" {
			t.Fatal("while the Service moves, its name leads nowhere")
		}
		h := home{l.west, strings.TrimSpace(must(t)(k.Run(ctx, "get", "namespace", "shop", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`)))}
		out, err := h.below().Run(ctx, "get", "service", "api", "-o", "jsonpath={.spec.clusterIP}")
		if err != nil {
			return err
		}
		copied = strings.TrimSpace(out)
		return want("api.shop", lookup(r, "api.shop.svc.cluster.local."), copied)
	})
	if got := imported("api"); got != "" && got != below+" "+address+" true" { // shop is on west alone now
		t.Errorf("what leads to a Service that is there is %q, want it retired", got)
	}

	// And away again: it has an address before that of the copy ends.
	must(t)(k.Run(ctx, "annotate", "namespace", "shop", "placement.atoll.dev/cluster=east", "--overwrite"))
	eventually(t, func() error {
		got := lookup(r, "api.shop.svc.cluster.local.")
		if got == "none" {
			t.Fatal("while the Service moves away, its name leads nowhere")
		}
		_, address, _ := strings.Cut(imported("api"), " ")
		if address == "" || got != address {
			return fmt.Errorf("api.shop leads to %s, want %s", got, address)
		}
		return nil
	})
	eventually(t, func() error { return want("pets.shop", lookup(r, "pets.shop.svc.cluster.local."), addresses(shop)) })

	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
	resolves("api.shop", "none")
	eventually(t, func() error { return want("what is left of imports", imported("api")+imported("pets"), "") })
}

// A Service that is on both leads on each to the pods of both.
func TestAServiceOnTwoPhysicalClustersLeadsToAllItsPodsWhereTheNetworkIsFlat(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t, "east", "west")
	l.flat(t, "east", "west")
	k := l.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: both}}"))
	both := k.In("both")
	must(t)(both.Apply(ctx, "{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: two}, spec: {count: 2}}"))
	must(t)(both.Apply(ctx, pets))
	var physical string
	eventually(t, func() error {
		physical = strings.TrimSpace(must(t)(k.Run(ctx, "get", "namespace", "both", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`)))
		for _, p := range []*physicalCluster{l.east, l.west} {
			all, made, err := addressesBehind(p.In(physical), "api")
			if err != nil {
				return err
			}
			if len(all) != 4 || len(made) != 2 {
				return fmt.Errorf("on %s the Service leads to %v, of which %v are elsewhere; want two and two", p.name, all, made)
			}
		}
		return nil
	})
	// Slices that were made below of others are not mirrored as endpoints of that physical cluster.
	consistently(t, 2*time.Second, func() error {
		all, _, err := addressesBehind(both, "api")
		if err == nil && len(all) != 4 {
			err = fmt.Errorf("above the Service has the endpoints %v", all)
		}
		return err
	})
	// Without a network each has its own again.
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/west", "--type=merge", "-p", `{"spec":{"pods":{"network":null}}}`))
	eventually(t, func() error {
		for _, p := range []*physicalCluster{l.east, l.west} {
			all, made, err := addressesBehind(p.In(physical), "api")
			if err != nil {
				return err
			}
			if len(all) != 2 || len(made) != 0 {
				return fmt.Errorf("on %s the Service leads to %v, of which %v are elsewhere", p.name, all, made)
			}
		}
		return nil
	})
}

// fromWeb admits what is in the namespace web.
const fromWeb = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: from-web}
spec:
  podSelector: {matchLabels: {app: pets}}
  ingress: [{ports: [{port: 80}], from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: web}}}]}]
`

// elsewhere are the policies of a physical namespace that admit pods on other physical clusters: for
// each, by the pods that it is for, the ports and the addresses.
func elsewhere(at home) (string, error) {
	var list networkingv1.NetworkPolicyList
	if _, err := at.below().Get(context.Background(), &list, "networkpolicies", "-l", "atoll.dev/supply=elsewhere"); err != nil {
		return "", err
	}
	var found []string
	for _, p := range list.Items {
		text := metav1.FormatLabelSelector(&p.Spec.PodSelector) + ":"
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				text += " " + port.Port.String()
			}
			var addresses []string
			for _, peer := range rule.From {
				block := netip.MustParsePrefix(peer.IPBlock.CIDR)
				for a := block.Addr(); block.Contains(a); a = a.Next() {
					addresses = append(addresses, a.String())
				}
			}
			slices.Sort(addresses)
			text += " " + strings.Join(addresses, " ")
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return strings.Join(found, "\n"), nil
}

// Pods on another physical cluster of the network are distinguished from those of others: their own logical
// cluster admits them by what its policies select, and nobody else's.
func TestPodsOnAnotherPhysicalClusterAreAdmittedWhereTheNetworkIsFlat(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east", "west")
	l.flat(t, "east", "west")
	k, other := l.newCluster(t), l.newCluster(t)
	for namespace, on := range map[string]string{"shop": "east", "web": "west", "db": "west"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", annotations: {placement.atoll.dev/cluster: "+on+"}}}"))
		must(t)(k.In(namespace).Apply(ctx, pets))
	}
	pin(t, other, "default", "west")
	must(t)(other.Apply(ctx, pets))
	for _, n := range []process.Kubectl{k.In("shop"), k.In("web"), k.In("db"), other} {
		must(t)(n.Run(ctx, "rollout", "status", "statefulset/pet", "--timeout=3m"))
	}
	addresses := func(namespaces ...string) string {
		t.Helper()
		var all []string
		for _, n := range namespaces {
			all = append(all, strings.Fields(must(t)(k.In(n).Run(ctx, "get", "pods", "-l", "app=pets", "-o", "jsonpath={.items[*].status.podIP}")))...)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	at := l.homeOf(t, k, "shop")
	admits := func(when, expected string) {
		t.Helper()
		eventually(t, func() error {
			got, err := elsewhere(at)
			if err != nil {
				return err
			}
			return want(when+", from elsewhere are admitted", got, expected)
		})
	}
	admits("without a policy of the user", "<none>: "+addresses("web", "db"))
	must(t)(k.In("shop").Apply(ctx, fromWeb))
	admits("with one for those of web", "app notin (pets): "+addresses("web", "db")+"\napp=pets: 80 "+addresses("web"))
	if names := must(t)(k.In("shop").Run(ctx, "get", "networkpolicies", "-o", "name")); strings.TrimSpace(names) != "networkpolicy.networking.k8s.io/from-web" {
		t.Errorf("above there are %s", names)
	}
	must(t)(k.In("web").Run(ctx, "scale", "statefulset/pet", "--replicas=3"))
	must(t)(k.In("web").Run(ctx, "rollout", "status", "statefulset/pet", "--timeout=3m"))
	if n := len(strings.Fields(addresses("web"))); n != 3 {
		t.Fatalf("%d pods have addresses", n)
	}
	admits("with one more pod", "app notin (pets): "+addresses("web", "db")+"\napp=pets: 80 "+addresses("web"))

	// Where addresses of pods are not known, nothing is said to be kept out.
	condition := func() (string, error) {
		var pc fleetv1alpha1.PhysicalCluster
		if _, err := l.root.Get(ctx, &pc, "physicalcluster", "east"); err != nil {
			return "", err
		}
		c := apimeta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionIsolatingPolicies)
		if c == nil {
			return "", errors.New("it says nothing")
		}
		return string(c.Status) + " " + c.Reason, nil
	}
	says := func(expected string) {
		t.Helper()
		eventually(t, func() error {
			got, err := condition()
			if err != nil {
				return err
			}
			return want("east about who is kept out", got, expected)
		})
	}
	says("True Made")
	must(t)(l.root.Apply(ctx, "{apiVersion: fleet.atoll.dev/v1alpha1, kind: PhysicalCluster, metadata: {name: unknown}, spec: {pods: {network: flat}}}"))
	t.Cleanup(func() {
		must(t)(l.root.Run(ctx, "delete", "physicalcluster/unknown", "--ignore-not-found", "--timeout=3m"))
	})
	says("False PodNetworkUnknown")
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/unknown", "--type=merge", "-p", `{"spec":{"tenancy":{"network":{"podCIDRs":["`+l.podsOf("east")+`"]}}}}`))
	says("False PodRangesOverlap")
	must(t)(l.root.Run(ctx, "delete", "physicalcluster/unknown", "--timeout=3m"))
	says("True Made")
	admits("with one more pod, still", "app notin (pets): "+addresses("web", "db")+"\napp=pets: 80 "+addresses("web"))

	must(t)(l.root.Run(ctx, "patch", "physicalcluster/west", "--type=merge", "-p", `{"spec":{"pods":{"network":null}}}`))
	admits("without a network", "")
}

// What was made of imports is no reason for a drain not to end, and is gone when it has.
func TestADrainedPhysicalClusterHasNothingOfImportsLeft(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east")
	reef := l.addPush(t, "reef")
	l.flat(t, "east", "reef")
	manifest, err := os.ReadFile(filepath.Join(process.Root(), "config", "dns", "atoll-dns.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	must(t)(reef.Apply(ctx, strings.ReplaceAll(string(manifest), "IMAGE", "atoll-dns")))
	l.offerNames(t, reef)

	k := l.newCluster(t)
	for namespace, on := range map[string]string{"shop": "east", "web": "reef"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", annotations: {placement.atoll.dev/cluster: "+on+"}}}"))
		must(t)(k.In(namespace).Apply(ctx, pets))
	}
	left := func() string {
		return strings.TrimSpace(must(t)(reef.Run(ctx, "get", "services,endpointslices", "-A", "-l", "atoll.dev/import", "-o", "name")))
	}
	eventually(t, func() error {
		if n := len(strings.Fields(left())); n < 4 {
			return fmt.Errorf("of two Services and their endpoints %d are there", n)
		}
		return nil
	})
	must(t)(k.Run(ctx, "annotate", "namespace", "web", "placement.atoll.dev/cluster-"))
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/reef", "--type=merge", "-p", `{"spec":{"drain":{"requested":true}}}`))
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Drained", "physicalcluster/reef", "--timeout=3m"))
	if got := left(); got != "" {
		t.Errorf("it is said to be drained, and has %s", got)
	}
}

// portAt is the port of atoll-dns that the nameserver of a pod leads to.
func (l *lab) portAt(t *testing.T, p *physicalCluster, below process.Kubectl) string {
	t.Helper()
	ctx := context.Background()
	address := strings.TrimSpace(must(t)(below.Run(ctx, "get", "pod", "pet-0", "-o", "jsonpath={.spec.dnsConfig.nameservers[0]}")))
	services := must(t)(p.Run(ctx, "-n", dnsNamespace, "get", "services", "-l", "atoll.dev/names", "-o", `jsonpath={range .items[*]}{.spec.clusterIP} {.spec.ports[*].targetPort}{"\n"}{end}`))
	for line := range strings.Lines(services) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == address && fields[1] == fields[2] {
			return fields[1]
		}
	}
	t.Fatalf("no Service has the address %s:\n%s", address, services)
	return ""
}
