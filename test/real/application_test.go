//go:build linux

package real

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

const (
	namespace = "shop"
	// drainSeconds is how long an address is withdrawn before who has it ends.
	drainSeconds = 5
	// waitTimeout bounds what will never come.
	waitTimeout = 3 * time.Minute
)

// application is a web server that ends as it should, behind a Service.
var application = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: web
        image: ` + lab.Image + `
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 2}}}
`

// client is a Deployment of one pod that sends requests to target and reports.
func client(name, target, collector string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
      - name: client
        image: %[2]s
        args: [client]
        env: [{name: TARGET, value: "%[3]s"}, {name: COLLECTOR, value: "%[4]s"}]
`, name, lab.Image, target, collector)
}

// policy is where the namespace may run; without regions everywhere.
func policy(regions ...string) string {
	terms := ""
	if len(regions) > 0 {
		terms = ", terms: [{matchLabels: {topology.kubernetes.io/region: " + strings.Join(regions, ",") + "}}]"
	}
	return fmt.Sprintf("{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: here}, spec: {move: {drainSeconds: %d}%s}}", drainSeconds, terms)
}

// atOnce is a policy by which a new address is published before load balancers are known to have noticed anything.
var atOnce = strings.Replace(policy(), "move: {", "move: {minReadySeconds: 0, ", 1)

// slowly is a policy by which traffic ends in the time that there is where no policy says.
var slowly = strings.Replace(policy(), fmt.Sprintf("drainSeconds: %d", drainSeconds), "drainSeconds: 15", 1)

// must fails the test on an error and passes what kubectl printed on.
func must(t *testing.T) func(string, error) string {
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// eventually repeats f until it returns nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(100 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", waitTimeout, err)
		}
	}
}

func placement(k process.Kubectl) (placementv1alpha1.Placement, error) {
	var p placementv1alpha1.Placement
	ok, err := k.In(namespace).Get(context.Background(), &p, "placement", placementv1alpha1.NamespaceUnit)
	if err == nil && (!ok || p.Spec.Decision == nil || len(p.Spec.Decision.PhysicalClusters) != 1) {
		err = fmt.Errorf("the decision is %+v (found %v)", p.Spec.Decision, ok)
	}
	return p, err
}

// settled waits until the namespace is on a physical cluster, and nowhere else.
func settled(t *testing.T, k process.Kubectl, home string) {
	t.Helper()
	eventually(t, func() error {
		p, err := placement(k)
		if err == nil && (p.Spec.Transition != nil || p.Spec.Decision.PhysicalClusters[0].Name != home) {
			err = fmt.Errorf("decision %+v, transition %+v, %+v", p.Spec.Decision, p.Spec.Transition, p.Status.Conditions)
		}
		return err
	})
}

// reaches waits for a phase of a move.
func reaches(t *testing.T, k process.Kubectl, phase placementv1alpha1.TransitionPhase) {
	t.Helper()
	eventually(t, func() error {
		p, err := placement(k)
		if err == nil && (p.Spec.Transition == nil || p.Spec.Transition.Phase != phase) {
			err = fmt.Errorf("the transition is %+v, waiting for %s", p.Spec.Transition, phase)
		}
		return err
	})
}

// pin asks for a physical cluster, or for none.
func pin(t *testing.T, k process.Kubectl, to string) {
	t.Helper()
	value := placementv1alpha1.PhysicalClusterAnnotation + "=" + to
	if to == "" {
		value = placementv1alpha1.PhysicalClusterAnnotation + "-"
	}
	must(t)(k.Run(t.Context(), "annotate", "namespace", namespace, "--overwrite", value))
}

// below is the namespace on physical clusters.
func below(t *testing.T, k process.Kubectl) string {
	t.Helper()
	var ns corev1.Namespace
	if ok, err := k.Get(t.Context(), &ns, "namespace", namespace); err != nil || !ok {
		t.Fatalf("reading the namespace: found %v, error %v", ok, err)
	}
	return ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
}
