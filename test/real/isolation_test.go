//go:build linux

package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// refused is how a packet ends that the node has no permission for, and nothing else in the lab.
const refused = "no answer: "

// networked is a tenant with a namespace on each physical cluster, of equal names for all
// tenants, with two pods and their Services in each.
type networked struct {
	tenant
	here, there tenant
}

func newNetworked(t *testing.T, name string) networked {
	n := newTenant(t, name)
	made := networked{n, n.namespace(t, "web", "east"), n.namespace(t, "far", "west")}
	for _, in := range []tenant{made.here, made.there} {
		must(t)(in.Apply(t.Context(), pets))
	}
	for _, in := range []tenant{made.here, made.there} {
		in.withPets(t)
	}
	return made
}

// addressOf is that of a pod, of whichever physical cluster.
func addressOf(t *testing.T, n tenant, pod string) string {
	return field(t, n.Kubectl, "pod", pod, "{.status.podIP}")
}

// call is one try of the pod pet-0 of a namespace.
type call struct {
	who  string
	from tenant
	url  string
	want string // how the answer begins
}

// get what they should, each of them, at one time.
func get(t *testing.T, calls ...call) {
	t.Helper()
	eventually(t, func() error {
		var wrong []string
		for _, c := range calls {
			got, err := c.from.in(t.Context(), "pet-0", "call", c.url)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(got, c.want) || c.want == refused && !strings.Contains(got, "no route to host") {
				wrong = append(wrong, fmt.Sprintf("%s at %s: %q, want %q", c.who, c.url, got, c.want))
			}
		}
		if wrong != nil {
			return fmt.Errorf("%d of %d calls:\n%s", len(wrong), len(calls), strings.Join(wrong, "\n"))
		}
		return nil
	})
}

// Nodes enforce NetworkPolicies. Pods of one tenant get no packet to those of another, on the
// same physical cluster and on another one of the network, and those of its own do, as far as
// its own policies say so.
func TestPodsOfTwoTenantsOnTwoPhysicalClustersAreKeptApartByTheNetwork(t *testing.T) {
	offerNames(t, "east")
	offerNames(t, "west")
	flat(t)
	for _, on := range []string{"east", "west"} {
		must(t)(theLab.Root.Run(t.Context(), "wait", "--for=condition=IsolatingPolicies", "--timeout=3m", "physicalcluster/"+on))
	}
	alice, mallory := newNetworked(t, "alice"), newNetworked(t, "mallory")
	pod := func(n tenant, name string) string { return "http://" + addressOf(t, n, name) + ":8080" }
	service := func(n tenant, on string) string {
		return "http://" + field(t, n.below(t, on), "service", "api", "{.spec.clusterIP}")
	}
	t.Run("without policies", func(t *testing.T) {
		get(t,
			call{"alice, of the namespace", alice.here, pod(alice.here, "pet-1"), "200 pet-1"},
			call{"alice, from elsewhere", alice.there, pod(alice.here, "pet-1"), "200 pet-1"},
			call{"alice, to elsewhere", alice.here, pod(alice.there, "pet-1"), "200 pet-1"},
			call{"alice, by name to elsewhere", alice.here, "http://api.far", "200 pet-"},
			call{"mallory, next to it", mallory.here, pod(alice.here, "pet-1"), refused},
			call{"mallory, next to it, at the Service", mallory.here, service(alice.here, "east"), refused},
			call{"mallory, from elsewhere", mallory.there, pod(alice.here, "pet-1"), refused},
			call{"mallory, to elsewhere", mallory.here, pod(alice.there, "pet-1"), refused},
			call{"mallory, her own by the same names", mallory.here, "http://api.far", "200 pet-"},
		)
	})
	t.Run("by labels", func(t *testing.T) { alice.permitsByLabels(t, mallory, pod) })
	t.Run("nothing leaves but questions for names", func(t *testing.T) { alice.letsNothingOut(t, pod) })
	t.Run("without isolation", func(t *testing.T) {
		patch(t, "east", `{"spec":{"tenancy":{"network":{"isolation":"None"}}}}`)
		t.Cleanup(func() {
			must(t)(theLab.Root.Run(context.Background(), "patch", "physicalcluster/east", "--type=merge", "-p", `{"spec":{"tenancy":{"network":null}}}`))
		})
		get(t, // or the test would be void
			call{"mallory, next to it", mallory.here, pod(alice.here, "pet-1"), "200 pet-1"},
			call{"mallory, from elsewhere", mallory.there, pod(alice.here, "pet-1"), "200 pet-1"},
		)
	})
}

// permitsByLabels: pods with a label, in namespaces with one, are let in to a port that has a name.
func (n networked) permitsByLabels(t *testing.T, mallory networked, pod func(tenant, string) string) {
	t.Cleanup(func() {
		must(t)(n.here.Run(context.Background(), "delete", "networkpolicy", "labelled", "--timeout=1m"))
	})
	must(t)(n.here.Apply(t.Context(), `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: labelled}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress:
  - {ports: [{port: 8080}], from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: far}}, podSelector: {matchLabels: {role: client}}}]}
`))
	for _, m := range []networked{n, mallory} {
		must(t)(m.there.Run(t.Context(), "label", "pod/pet-0", "role=client"))
	}
	get(t,
		call{"alice, with the label", n.there, pod(n.here, "pet-1"), "200 pet-1"},
		call{"alice, of a namespace without", n.here, pod(n.here, "pet-1"), refused},
		call{"mallory, with the same labels", mallory.there, pod(n.here, "pet-1"), refused},
		call{"alice, to where no policy is", n.here, pod(n.there, "pet-1"), "200 pet-1"},
	)
	must(t)(n.there.Run(t.Context(), "label", "pod/pet-0", "role-"))
	get(t, call{"alice, without the label", n.there, pod(n.here, "pet-1"), refused})
}

// letsNothingOut: as users write it who forbid all that leaves, but for names.
func (n networked) letsNothingOut(t *testing.T, pod func(tenant, string) string) {
	const policy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: out}
spec: {podSelector: {}, policyTypes: [Egress], egress: [%s]}
`
	t.Cleanup(func() {
		must(t)(n.here.Run(context.Background(), "delete", "networkpolicy", "out", "--timeout=1m"))
	})
	both := []string{addressOf(t, n.here, "pet-0"), addressOf(t, n.here, "pet-1")}
	slices.Sort(both)
	names := map[string]string{"pets": strings.Join(both, " "), "nobody": "none", lab.OutsideName: lab.OutsideAddress}
	must(t)(n.here.Apply(t.Context(), fmt.Sprintf(policy, "{ports: [{port: 53, protocol: UDP}, {port: 53}]}")))
	get(t,
		call{"who may send nothing", n.here, pod(n.here, "pet-1"), refused},
		call{"who may send nothing, to elsewhere", n.here, pod(n.there, "pet-1"), refused},
		call{"who may receive", n.there, pod(n.here, "pet-1"), "200 pet-1"},
	)
	resolves(t, n.here, names)
	must(t)(n.here.Apply(t.Context(), fmt.Sprintf(policy, "{ports: [{port: 53, protocol: UDP}, {port: 53}]}, {to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: far}}}]}")))
	get(t,
		call{"who may send to a namespace elsewhere", n.here, pod(n.there, "pet-1"), "200 pet-1"},
		call{"who may not in its own", n.here, pod(n.here, "pet-1"), refused},
	)
	must(t)(n.here.Apply(t.Context(), fmt.Sprintf(policy, "")))
	eventually(t, func() error {
		out, err := n.here.in(t.Context(), "pet-0", "lookup", "pets")
		if err == nil && !strings.HasPrefix(out, "pets\terror: ") {
			err = fmt.Errorf("the rules do not reach questions for names: %s", out)
		}
		return err
	})
}
