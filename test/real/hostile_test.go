//go:build linux

package real

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// Two tenants with equal namespaces on one physical cluster. The pods of one try what a
// program of its user could: each try fails, and the same try by who may succeeds.
func TestPodsOfAHostileTenantGetNothingThatIsNotTheirs(t *testing.T) {
	offerNames(t, "east")
	mallory := newTenant(t, "mallory").namespace(t, "web", "east")
	alice := newTenant(t, "alice").namespace(t, "web", "east")
	secret := alice.namespace(t, "vault", "east").withPets(t)
	must(t)(alice.Apply(t.Context(), pets))
	mallory.withPets(t)
	alice.withPets(t)
	t.Run("names of another's Services", func(t *testing.T) { mallory.asksForNames(t, alice, secret) })
	t.Run("tokens of another", func(t *testing.T) { mallory.usesTokens(t, alice) })
	t.Run("the physical API and the kubelet", func(t *testing.T) { mallory.asksBelow(t) })
	t.Run("what syncers may", func(t *testing.T) { mallory.actsAsSyncer(t) })
	t.Run("pods that see more than pods may", func(t *testing.T) { mallory.runsOnTheNode(t) })
	t.Run("Secrets of another, by name", func(t *testing.T) { mallory.mounts(t, alice) })
}

// asksForNames: by every form of a name, and by address.
func (n tenant) asksForNames(t *testing.T, of, in tenant) {
	address := field(t, in.below(t, "east"), "service", "api", "{.spec.clusterIP}")
	physical := of.below(t, "east").Namespace
	names := map[string]string{
		"api.vault": "none", "api.vault.svc.cluster.local": "none", "pet-0.pets.vault": "none", "_http._tcp.pets.vault.svc.cluster.local": "none",
		"api." + physical + ".svc.cluster.local": "none", "pet-0.pets." + physical + ".svc.cluster.local": "none",
		address: "none", field(t, in.below(t, "east"), "pod", "pet-1", "{.status.podIP}"): "none",
		"api": field(t, n.below(t, "east"), "service", "api", "{.spec.clusterIP}"), // of equal names, its own
	}
	resolves(t, n, names)
	resolves(t, of, map[string]string{"api.vault": address, address: "api.vault.svc.cluster.local."})
	// Names of the physical cluster and of its machinery are nobody's.
	resolves(t, n, map[string]string{"kubernetes.default.svc.cluster.local": lab.ServerHost, "atoll-dns.atoll-dns": "none", "kubernetes.default.svc.cluster.local.atoll-dns": "none"})
}

// usesTokens: a token that was stolen is good for its own logical cluster only, and one of
// one's own opens no other.
func (n tenant) usesTokens(t *testing.T, of tenant) {
	own := must(t)(n.in(t.Context(), "pet-0", "cat", mount+"token"))
	const path = "/api/v1/namespaces/web/pods"
	server := "https://" + lab.ServerHost
	must(t)(of.Run(t.Context(), "create", "rolebinding", "reads", "--clusterrole=view", "--serviceaccount=web:default"))
	theirs := must(t)(of.in(t.Context(), "pet-0", "cat", mount+"token"))
	eventually(t, func() error { return answers(t, of, server+path, theirs, "200 ") })
	for url, token := range map[string]string{
		server + "/clusters/" + of.name + path: own, server + "/clusters/" + n.name + path: theirs,
		server + "/clusters/root/api/v1/secrets": own, server + path: own,
		server + "/clusters/*/api/v1/pods": own,
	} {
		if got := must(t)(n.in(t.Context(), "pet-0", "call", url, token)); !strings.HasPrefix(got, "401 ") && !strings.HasPrefix(got, "403 ") {
			t.Errorf("%s answers %s", url, got)
		}
	}
}

// asksBelow: API server, kubelet and its read-only port, etcd, by the ways that a pod has.
func (n tenant) asksBelow(t *testing.T) {
	token := mount + "token"
	p := theLab.PhysicalCluster("east")
	for _, url := range []string{"https://10.96.0.1/api/v1/secrets", "https://" + p.Address() + ":6443/api/v1/secrets", "https://" + p.NodeAddress() + ":10250/pods", "https://" + p.NodeAddress() + ":10250/metrics"} {
		if err := answers(t, n, url, token, "401 "); err != nil {
			t.Error(err)
		}
	}
	for _, url := range []string{"http://" + p.NodeAddress() + ":10255/pods", "http://" + p.NodeAddress() + ":10249/configz", "http://" + p.Address() + ":2379/version", "http://" + lab.ServerHost + ":2379/version"} {
		if err := answers(t, n, url, token, "no answer: "); err != nil {
			t.Error(err)
		}
	}
	physical := strings.TrimSpace(must(t)(p.Run(t.Context(), "create", "token", "default", "-n", namesNamespace)))
	if err := answers(t, n, "https://"+p.NodeAddress()+":10250/pods", physical, "403 "); err != nil {
		t.Errorf("VOID: a token of the physical cluster is not distinguished: %v", err)
	}
}

// actsAsSyncer: the paths of syncers are theirs.
func (n tenant) actsAsSyncer(t *testing.T) {
	server := "https://" + lab.ServerHost + "/targets/east/clusters/"
	own := must(t)(n.in(t.Context(), "pet-0", "cat", mount+"token"))
	for _, path := range []string{"root/tunnel", "root/apis/fleet.atoll.dev/v1alpha1/physicalclusters/east", n.name + "/api/v1/namespaces/web/secrets", "*/apis/placement.atoll.dev/v1alpha1/copies"} {
		if got := must(t)(n.in(t.Context(), "pet-0", "call", server+path, own)); !strings.HasPrefix(got, "401 ") && !strings.HasPrefix(got, "403 ") {
			t.Errorf("%s answers %s", path, got)
		}
	}
	syncer := process.Kubectl{Kubeconfig: theLab.Path("west-syncer.kubeconfig")}
	if _, err := syncer.Run(t.Context(), "get", "--raw", "/targets/west/clusters/root/apis/fleet.atoll.dev/v1alpha1/physicalclusters/west"); err != nil {
		t.Errorf("VOID: a syncer may not either: %v", err)
	}
}

// runsOnTheNode: who had the file system or the network of the node had its credentials.
func (n tenant) runsOnTheNode(t *testing.T) {
	try := func(name, container, pod string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers:\n  - name: tools\n    image: %s\n%s\n%s\n", name, lab.ToolsImage, indent(4, container), indent(2, pod))
	}
	const mounted = "volumeMounts: [{name: v, mountPath: /node}]"
	for name, manifest := range map[string]string{
		"host-path":  try("host-path", mounted, "volumes: [{name: v, hostPath: {path: /}}]"),
		"network":    try("network", "", "hostNetwork: true"),
		"processes":  try("processes", "", "hostPID: true"),
		"port":       try("port", "ports: [{containerPort: 80, hostPort: 80}]", ""),
		"privileged": try("privileged", "securityContext: {privileged: true}", ""),
	} {
		if _, err := n.Apply(t.Context(), manifest); err == nil || !strings.Contains(err.Error(), "orbidden") {
			t.Errorf("the Pod %s is not refused: %v", name, err)
		}
	}
	must(t)(n.Apply(t.Context(), try("plain", mounted, "volumes: [{name: v, emptyDir: {}}]")))
	must(t)(n.Run(t.Context(), "wait", "--for=condition=Ready", "pod/plain", "--timeout=3m"))
}

// mounts: what a pod names is of its own namespace, also if it is named as the Secrets are
// that hold tokens below.
func (n tenant) mounts(t *testing.T, of tenant) {
	tokens := must(t)(of.below(t, "east").Run(t.Context(), "get", "secrets", "-o", "name"))
	var theirs string
	for line := range strings.Lines(tokens) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "secret/"); ok && strings.HasPrefix(name, "atoll-token-") {
			theirs = name
		}
	}
	if theirs == "" {
		t.Fatalf("VOID: there is no Secret with a token: %s", tokens)
	}
	must(t)(n.Apply(t.Context(), tools("thief", "hold", "volumeMounts: [{name: v, mountPath: /stolen}]", "volumes: [{name: v, secret: {secretName: "+theirs+", optional: true}}]")))
	n.running(t, "thief")
	if got, err := n.in(t.Context(), "deployment/thief", "cat", "/stolen/token"); err == nil {
		t.Errorf("the pod has another's token: %.20s", got)
	}
}

// answers returns an error unless the answer of a URL begins so, for the pod pet-0.
func answers(t *testing.T, n tenant, url, token, want string) error {
	t.Helper()
	got, err := n.in(t.Context(), "pet-0", "call", url, token)
	if err == nil && !strings.HasPrefix(got, want) {
		err = fmt.Errorf("%s answers %s, want %s", url, got, want)
	}
	return err
}
