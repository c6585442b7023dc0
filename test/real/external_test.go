//go:build linux

package real

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// outsideServer answers requests beside the physical clusters, as a database of a company does,
// until the test ends.
func outsideServer(t *testing.T) (address string, port int) {
	t.Helper()
	address = theLab.Physical[0].Address()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "outside") }), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return address, l.Addr().(*net.TCPAddr).Port
}

// external are a Service without a selector with an EndpointSlice, one with Endpoints as they were
// before there were slices, and one of a name.
func external(address string, port int) string {
	return fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {ports: [{name: http, port: 80}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: http, port: %[2]d, protocol: TCP}]
endpoints: [{addresses: [%[1]s]}]
---
{apiVersion: v1, kind: Service, metadata: {name: old}, spec: {clusterIP: None, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: old}, subsets: [{addresses: [{ip: %[1]s}], ports: [{port: %[2]d}]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: named}, spec: {type: ExternalName, externalName: %[3]s}}
`, address, port, lab.OutsideName)
}

// led is a Service as those have it that elect a leader among their pods, and write its address into its
// endpoints.
func led(leader string) string {
	return fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: leader}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: leader}, subsets: [{addresses: [{ip: %s}], ports: [{port: 8080}]}]}
`, leader)
}

// Services that select no pods lead to what users wrote, as far as the admin of the physical cluster
// permits it, for pods beside them and for those on another physical cluster that is in no network
// with it; never to pods of another tenant.
func TestServicesWithoutASelectorAndNamesLeadOutFromEveryPhysicalCluster(t *testing.T) {
	offerNames(t, "east")
	offerNames(t, "west")
	address, port := outsideServer(t)
	alice, mallory := newNetworked(t, "alice"), newNetworked(t, "mallory")
	for _, in := range []tenant{alice.here, mallory.here} {
		theirs := address
		if in == mallory.here {
			theirs = addressOf(t, alice.here, "pet-1")
		}
		apply := in.Command(t.Context(), "apply", "-f", "-")
		apply.Stdin = strings.NewReader(external(theirs, port))
		out, err := apply.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the Service db does not lead to "+theirs) || !strings.Contains(string(out), "the Service old does not lead to "+theirs) {
			t.Errorf("%s reads %q: %v", in.name, out, err)
		}
	}
	names := func(more string) map[string]string {
		return map[string]string{"named" + more: lab.OutsideAddress, "old" + more: address}
	}
	for _, on := range []string{"east", "west"} {
		patch(t, on, `{"spec":{"tenancy":{"endpointCIDRs":["172.31.0.0/16","10.200.0.0/16"]}}}`)
		t.Cleanup(func() {
			must(t)(theLab.Root.Run(context.Background(), "patch", "physicalcluster/"+on, "--type=merge", "-p", `{"spec":{"tenancy":null}}`))
		})
	}
	leader := addressOf(t, alice.here, "pet-1")
	for _, in := range []tenant{alice.here, mallory.here} {
		apply := in.Command(t.Context(), "apply", "-f", "-")
		apply.Stdin = strings.NewReader(led(leader))
		out, err := apply.CombinedOutput()
		if warned := strings.Contains(string(out), "the Service leader does not lead to "+leader); err != nil || warned != (in == mallory.here) {
			t.Errorf("%s reads %q: %v", in.name, out, err)
		}
	}
	get(t,
		call{"alice, her leader", alice.here, "http://leader", "200 pet-1"},
		call{"alice, beside it", alice.here, "http://db", "200 outside"},
		call{"alice, from elsewhere", alice.there, "http://db.web", "200 outside"},
		call{"alice, by the address", alice.there, fmt.Sprintf("http://old.web:%d", port), "200 outside"},
	)
	resolves(t, alice.here, names(""))
	resolves(t, alice.there, names(".web"))
	// Her slices have been looked at by now: they are older.
	if slices := must(t)(mallory.here.below(t, "east").Run(t.Context(), "get", "endpointslices", "-l", "kubernetes.io/service-name in (db,old,leader)", "-o", "name")); slices != "" {
		t.Errorf("below are endpoints of mallory's: %s", slices)
	}
	resolves(t, mallory.here, map[string]string{"old": "none"})
	must(t)(alice.here.Run(t.Context(), "patch", "endpointslice/db-1", "--type=merge", "-p", `{"endpoints":[]}`))
	eventually(t, func() error {
		got, err := alice.there.in(t.Context(), "pet-0", "call", "http://db.web")
		if err == nil && !strings.HasPrefix(got, "no answer: ") {
			err = fmt.Errorf("a Service without endpoints answers %s", got)
		}
		return err
	})
	patch(t, "east", `{"spec":{"tenancy":{"endpointCIDRs":null}}}`)
	resolves(t, alice.here, map[string]string{"old": "none"}) // or the test would be void
}
