//go:build linux

package real

import (
	"fmt"
	"testing"
	"time"
)

// One pod of each of its programs is on each physical cluster. The server loses one of these, and
// goes on with the other: whatever is called over a connection that is cut fails with the
// timeout of the webhook, until such connections are given up.
func TestCertManagerThatIsDividedAnswersWhileAPhysicalClusterIsCut(t *testing.T) {
	areBuilt(t, certManager...)
	chart := renders(t)
	loads(t, chart, certManager...)
	n := newTenant(t, "certified-twice")
	must(t)(n.Run(t.Context(), "create", "namespace", "cert-manager"))
	operator, user := tenant{Kubectl: n.In("cert-manager"), name: n.name}, n.namespace(t, "web", "west")
	must(t)(operator.Apply(t.Context(), "{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: both}, spec: {count: 2, replicas: {mode: Divide}}}"))
	must(t)(n.Apply(t.Context(), chart))
	operator.running(t, "cert-manager", "cert-manager-webhook", "cert-manager-cainjector")
	isInjected(t, operator)
	becomes(t, operator, "east-node west-node", "get", "pods", "-l", "app.kubernetes.io/component=webhook", "--sort-by=.spec.nodeName", "-o", "jsonpath={.items[*].spec.nodeName}")
	must(t)(user.Apply(t.Context(), issuer))
	isIssued(t, user, "first")
	handsOver(t, operator, "cert-manager", "cert-manager-controller")
	isIssued(t, user, "second")

	for _, p := range theLab.Physical {
		restore, err := p.Cut()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		failed := 0
		for quiet := false; !quiet; { // until the cut is known, and calls are answered
			if _, err := user.Apply(t.Context(), bad); !isRefusal(err) {
				failed++
				t.Logf("%s after the cut of %s: %v", time.Since(began).Round(time.Second), p.Name, err)
			}
			ready, err := theLab.Root.Run(t.Context(), "get", "physicalcluster", p.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
			quiet = err == nil && ready != "True"
			if time.Since(began) > waitTimeout {
				t.Fatalf("VOID: nobody notices that %s is cut", p.Name)
			}
		}
		t.Logf("%s is known to be cut after %s, %d calls failed", p.Name, time.Since(began).Round(time.Second), failed)
		began = time.Now()
		for range 10 {
			refusesBad(t, user)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("ten refusals without %s took %s", p.Name, took)
		}
		if err := restore(); err != nil {
			t.Fatal(err)
		}
		must(t)(theLab.Root.Run(t.Context(), "wait", "--for=condition=Ready", "physicalcluster/"+p.Name, "--timeout=3m"))
		isIssued(t, user, fmt.Sprintf("after-%s", p.Name))
	}
}
