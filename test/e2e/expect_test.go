package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

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

// waitTimeout is how long tests wait for what takes a moment: it bounds what will never
// come and says nothing about how fast something is.
const waitTimeout = 3 * time.Minute

// eventually repeats f until it returns nil; when waitTimeout is over, the last error
// fails the test. What takes longer is asked for less often, and seen late by a tenth of
// its time at most: six tests that ask five times in a second keep a processor busy with
// kubectl alone.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	poll(t, 500*time.Millisecond, f)
}

// eventuallyBrief is eventually for what does not last.
func eventuallyBrief(t *testing.T, f func() error) {
	t.Helper()
	poll(t, minPollInterval, f)
}

// minPollInterval is how often tests ask for what they have not waited for yet.
const minPollInterval = 200 * time.Millisecond

// poll repeats f at an interval that grows with the wait, up to maxInterval.
func poll(t *testing.T, maxInterval time.Duration, f func() error) {
	t.Helper()
	for began := time.Now(); ; {
		err := f()
		if err == nil {
			return
		}
		waited := time.Since(began)
		if waited > waitTimeout {
			t.Fatalf("not within %s: %v", waitTimeout, err)
		}
		time.Sleep(min(max(waited/10, minPollInterval), maxInterval))
	}
}

// consistently repeats f for a while; an error fails the test.
func consistently(t *testing.T, duration time.Duration, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(duration); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
}

// want returns an error with the difference, if there is one.
func want(what string, got, want any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return nil
}

// home is where the namespace of an object is placed: its one target and its
// namespace there.
type home struct {
	*physicalCluster
	namespace string
}

// below is kubectl in the physical namespace.
func (h home) below() process.Kubectl { return h.Kubectl.In(h.namespace) }

// homeOf finds out where a namespace is placed: on east, west or one of others.
func (l *lab) homeOf(t *testing.T, k process.Kubectl, namespace string, others ...*physicalCluster) home {
	t.Helper()
	var placement placementv1alpha1.Placement
	get(t, k.In(namespace), &placement, "placement", placementv1alpha1.NamespaceUnit)
	if placement.Spec.Decision == nil || len(placement.Spec.Decision.PhysicalClusters) != 1 {
		t.Fatalf("the decision for namespace %s is %+v, want one physical cluster", namespace, placement.Spec.Decision)
	}
	var ns corev1.Namespace
	get(t, k, &ns, "namespace", namespace)
	below := ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
	if below == "" {
		t.Fatalf("namespace %s is placed but has no annotation %s", namespace, placementv1alpha1.PhysicalNamespaceAnnotation)
	}
	name := placement.Spec.Decision.PhysicalClusters[0].Name
	for _, p := range append(others, l.physicalClusters()...) {
		if p.name == name {
			return home{p, below}
		}
	}
	t.Fatalf("namespace %s is placed on %q, which nobody started", namespace, name)
	return home{}
}

// get reads an object that must be there.
func get(t *testing.T, k process.Kubectl, out any, args ...string) {
	t.Helper()
	ok, err := k.Get(context.Background(), out, args...)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Fatalf("%s is not there", strings.Join(args, " "))
	}
}

// gone returns an error while an object is there.
func gone(k process.Kubectl, args ...string) error {
	var o metav1.PartialObjectMetadata
	ok, err := k.Get(context.Background(), &o, args...)
	if err == nil && ok {
		err = fmt.Errorf("%s is still there", strings.Join(args, " "))
	}
	return err
}

// available waits until a Deployment reports that all its replicas are.
func available(k process.Kubectl, name string, replicas int32) error {
	var d appsv1.Deployment
	if ok, err := k.Get(context.Background(), &d, "deployment", name); err != nil || !ok {
		return fmt.Errorf("deployment %s: found %v: %w", name, ok, err)
	}
	got := []int32{d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas}
	if err := want("replicas, updated, ready, available of "+name, got, slices.Repeat([]int32{replicas}, 4)); err != nil {
		return err
	}
	return want("observed generation of "+name, d.Status.ObservedGeneration, d.Generation)
}

// ours lists everything with the mark of a control plane on a physical cluster,
// in all namespaces of a logical cluster, as kind/namespace/name.
func ours(p *physicalCluster, logicalNamespacePrefix string) ([]string, error) {
	out, err := p.Run(context.Background(), "get", "namespaces,deployments,statefulsets,daemonsets,jobs,cronjobs,pods,services,configmaps,secrets,persistentvolumeclaims",
		"--all-namespaces", "-l", "atoll.dev/managed-by", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, err
	}
	found := []string{}
	for _, o := range list.Items {
		if strings.HasPrefix(o.Namespace, logicalNamespacePrefix) || o.Namespace == "" && strings.HasPrefix(o.Name, logicalNamespacePrefix) {
			found = append(found, o.Kind+"/"+o.Namespace+"/"+o.Name)
		}
	}
	return found, nil
}

// deployment is a manifest of a Deployment with simulated pods.
func deployment(name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers: [{name: app, image: "nginx:1.29"}]
---
`, name, replicas)
}
