//go:build linux

package real

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

const namesNamespace = "atoll-dns"

// offerNames runs atoll-dns on a physical cluster, by the manifest that admins apply, until
// the test ends.
func offerNames(t *testing.T, on string) {
	t.Helper()
	ctx := context.Background()
	p := theLab.PhysicalCluster(on)
	manifest, err := os.ReadFile(filepath.Join(process.Root(), "config", "dns", "atoll-dns.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	must(t)(p.Apply(ctx, strings.ReplaceAll(string(manifest), "IMAGE", lab.NamesImage)))
	must(t)(p.In(namesNamespace).Run(ctx, "rollout", "status", "deployment/atoll-dns", "--timeout=3m"))
	patch(t, on, `{"spec":{"pods":{"names":{"namespace":"`+namesNamespace+`"}}}}`)
	t.Cleanup(func() {
		must(t)(theLab.Root.Run(ctx, "patch", "physicalcluster/"+on, "--type=merge", "-p", `{"spec":{"pods":{"names":null}}}`))
		must(t)(p.Run(ctx, "delete", "namespace", namesNamespace, "--timeout=3m"))
	})
	must(t)(theLab.Root.Run(ctx, "wait", "--for=condition=PodsResolveNames", "physicalcluster/"+on, "--timeout=3m"))
}

// pets are two pods with names, and Services of all types that have names.
var pets = `
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {ports: [{name: http, port: 80, targetPort: 8080}], selector: {app: pets}}
---
apiVersion: v1
kind: Service
metadata: {name: pets}
spec: {clusterIP: None, ports: [{name: http, port: 8080}], selector: {app: pets}}
---
apiVersion: v1
kind: Service
metadata: {name: out}
spec: {type: ExternalName, externalName: ` + lab.OutsideName + `}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: pet}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  serviceName: pets
  selector: {matchLabels: {app: pets}}
  template:
    metadata: {labels: {app: pets}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: "` + lab.Image + `", readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}
      - {name: tools, image: "` + lab.ToolsImage + `"}
`

func (n tenant) withPets(t *testing.T) tenant {
	t.Helper()
	must(t)(n.Apply(t.Context(), pets))
	must(t)(n.Run(t.Context(), "rollout", "status", "statefulset/pet", "--timeout=3m"))
	return n
}

// Two logical clusters with equal namespaces and Services on one physical cluster: the
// resolver of a pod finds what its own has, by every name that the specification knows, and
// nothing of the other.
func TestPodsResolveTheNamesOfTheirLogicalClusterAndNoOthers(t *testing.T) {
	offerNames(t, "east")
	tenants := []tenant{newTenant(t, "red"), newTenant(t, "blue")}
	var webs, others []tenant
	for _, n := range tenants {
		web := n.namespace(t, "web", "east")
		must(t)(web.Apply(t.Context(), pets))
		webs, others = append(webs, web), append(others, n.namespace(t, "only-"+n.name, "east"))
	}
	for i := range tenants {
		webs[i].withPets(t)
		others[i].withPets(t)
	}
	before := len(theLab.Resolver.Asked())
	for i, web := range webs {
		theirs := "api.only-" + tenants[1-i].name
		resolves(t, web, answersOf(t, web, others[i], map[string]string{
			theirs: "none", theirs + ".svc": "none", theirs + ".svc.cluster.local": "none",
			"atoll-dns.atoll-dns": "none", "kube-dns.kube-system.svc.cluster.local": "none", "kubernetes.default.svc.example": "none",
			field(t, webs[1-i].below(t, "east"), "service", "api", "{.spec.clusterIP}"): "none",
		}))
		// Names lead there, too.
		for _, url := range []string{"http://api", "http://api.only-" + tenants[i].name, "http://pet-1.pets:8080"} {
			if got := must(t)(web.in(t.Context(), "pet-0", "call", url)); !strings.HasPrefix(got, "200 pet-") {
				t.Errorf("%s answers %s", url, got)
			}
		}
		if got := must(t)(web.in(t.Context(), "pet-0", "api", "https://kubernetes.default.svc")); got != "system:serviceaccount:web:default "+field(t, web.Kubectl, "serviceaccount", "default", "{.metadata.uid}") {
			t.Errorf("at kubernetes.default.svc the pod is %s", got)
		}
	}
	for _, name := range theLab.Resolver.Asked()[before:] {
		if strings.HasSuffix(strings.ToLower(name), "cluster.local.") || strings.HasSuffix(name, ".in-addr.arpa.") {
			t.Errorf("%s was asked of a resolver outside", name)
		}
	}
}

// answersOf is what pods of a namespace get, together with what more says; other is another
// namespace of the same logical cluster.
func answersOf(t *testing.T, web, other tenant, more map[string]string) map[string]string {
	t.Helper()
	below, elsewhere := web.below(t, "east"), other.below(t, "east")
	api, there := field(t, below, "service", "api", "{.spec.clusterIP}"), field(t, elsewhere, "service", "api", "{.spec.clusterIP}")
	first, second := field(t, below, "pod", "pet-0", "{.status.podIP}"), field(t, below, "pod", "pet-1", "{.status.podIP}")
	both := []string{first, second}
	slices.Sort(both)
	want := map[string]string{
		"pets": strings.Join(both, " "), "pets.web.svc.cluster.local": strings.Join(both, " "),
		"pet-0.pets": first, "pet-1.pets.web": second, "pet-1.pets.web.svc.cluster.local": second,
		"api." + other.Namespace: there, "api." + other.Namespace + ".svc.cluster.local": there,
		"_http._tcp.pets.web.svc.cluster.local": "pet-0.pets.web.svc.cluster.local.:8080 pet-1.pets.web.svc.cluster.local.:8080",
		"_http._tcp.api.web.svc.cluster.local":  "api.web.svc.cluster.local.:80",
		second:                                  "pet-1.pets.web.svc.cluster.local.", // its own is in /etc/hosts
		api:                                     "api.web.svc.cluster.local.",
		lab.OutsideName:                         lab.OutsideAddress,
		"out":                                   lab.OutsideAddress, "out.web.svc.cluster.local": lab.OutsideAddress,
		"nobody": "none", "nobody.web": "none", "nobody.web.svc.cluster.local": "none", "cluster.local": "none", "nobody.example.com": "none",
	}
	for _, name := range []string{"api", "api.web", "api.web.svc", "api.web.svc.cluster.local", "api.web.svc.cluster.local."} {
		want[name] = api
	}
	for name, answer := range more {
		want[name] = answer
	}
	return want
}

// resolves waits until each name leads where it should, in the pod pet-0.
func resolves(t *testing.T, n tenant, want map[string]string) {
	t.Helper()
	var names []string
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	eventually(t, func() error {
		out, err := n.in(t.Context(), "pet-0", append([]string{"lookup"}, names...)...)
		if err != nil {
			return err
		}
		got, wrong := 0, ""
		for line := range strings.Lines(out) {
			name, answer, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got++
			if answer != want[name] {
				wrong += fmt.Sprintf("%s leads to %s, want %s\n", name, answer, want[name])
			}
		}
		if wrong != "" || got != len(want) {
			return fmt.Errorf("%d of %d names:\n%s", got, len(want), wrong)
		}
		return nil
	})
}

// field is one of an object.
func field(t *testing.T, k process.Kubectl, kind, name, path string) string {
	t.Helper()
	value := must(t)(k.Run(t.Context(), "get", kind, name, "-o", "jsonpath="+path))
	if value == "" {
		t.Fatalf("%s %s has no %s", kind, name, path)
	}
	return value
}
