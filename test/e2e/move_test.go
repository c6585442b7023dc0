package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// shop is an application with something that serves, something that must not run twice,
// what they refer to, and a job that has run.
const shop = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: moves}
spec: {move: {drainSeconds: 2}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: one}
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: pods}
spec: {hard: {pods: "20"}}
`

// observer watches, without a gap, what clients of a namespace depend on.
type observer struct {
	mu sync.Mutex
	// ready endpoints of the Service web by slice, and the least of their sums; live pods
	// of the StatefulSet by UID, and the most of them at a time.
	slices map[string]int
	least  int
	pods   map[string]bool
	most   int
	// history is each change that was seen, for who has to find out why.
	history []string
}

// observe watches until the test ends.
func observe(t *testing.T, k process.Kubectl, namespace string) *observer {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{slices: map[string]int{}, pods: map[string]bool{}, least: 1 << 30}
	slices, err := client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range slices.Items {
		o.least = 1 << 30 // what was counted without this one says nothing
		o.slice(&slices.Items[i], false)
	}
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		o.pod(&pods.Items[i], false)
	}
	sw, err := client.DiscoveryV1().EndpointSlices(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: slices.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	pw, err := client.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for e := range sw.ResultChan() {
			if s, ok := e.Object.(*discoveryv1.EndpointSlice); ok {
				o.slice(s, e.Type == watch.Deleted)
			}
		}
	}()
	go func() {
		for e := range pw.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				o.pod(p, e.Type == watch.Deleted)
			}
		}
	}()
	t.Cleanup(func() { sw.Stop(); pw.Stop() })
	return o
}

func (o *observer) slice(s *discoveryv1.EndpointSlice, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Labels[discoveryv1.LabelServiceName] != "web" {
		return
	}
	ready := 0
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			ready++
		}
	}
	if o.slices[s.Name] = ready; gone {
		delete(o.slices, s.Name)
	}
	sum := 0
	for _, n := range o.slices {
		sum += n
	}
	o.least = min(o.least, sum)
	o.history = append(o.history, fmt.Sprintf("%s %d ready of slice %s of %s, gone: %v; %d in all", time.Now().Format("15:04:05.000"), ready, s.Name, s.Annotations[placementv1alpha1.TargetsAnnotation], gone, sum))
}

func (o *observer) pod(p *corev1.Pod, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.Labels["app"] != "one" {
		return
	}
	if o.pods[string(p.UID)] = true; gone {
		delete(o.pods, string(p.UID))
	}
	o.most = max(o.most, len(o.pods))
	o.history = append(o.history, fmt.Sprintf("%s pod %s (%s), gone: %v", time.Now().Format("15:04:05.000"), p.Name, p.Status.Phase, gone))
}

func (o *observer) read() (least, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.least, o.most
}

// seen is all that was seen, a line each.
func (o *observer) seen() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.history, "\n")
}

// settled waits until a namespace is where it should be, and on no way.
func settled(t *testing.T, k process.Kubectl, namespace, home string) {
	t.Helper()
	eventually(t, func() error {
		var p placementv1alpha1.Placement
		if _, err := k.In(namespace).Get(context.Background(), &p, "placement", placementv1alpha1.NamespaceUnit); err != nil {
			return err
		}
		if p.Spec.Transition != nil || p.Spec.Decision == nil || len(p.Spec.Decision.PhysicalClusters) != 1 || p.Spec.Decision.PhysicalClusters[0].Name != home {
			return fmt.Errorf("namespace %s: %+v, transition %+v, %+v", namespace, p.Spec.Decision, p.Spec.Transition, p.Status.Conditions)
		}
		return nil
	})
}

func pin(t *testing.T, k process.Kubectl, namespace, to string) string {
	t.Helper()
	return must(t)(k.Run(context.Background(), "annotate", "namespace", namespace, "--overwrite", placementv1alpha1.PhysicalClusterAnnotation+"="+to))
}

func TestANamespaceMovesAndItsServiceIsNeverWithoutEndpoints(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: east}}}"))
	web := k.In("shop")
	must(t)(web.Apply(ctx, shop))
	must(t)(web.Run(ctx, "create", "job", "once", "--image=busybox"))
	for _, what := range []string{"deployment/web", "statefulset/one"} {
		must(t)(web.Run(ctx, "rollout", "status", what, "--timeout=3m"))
	}
	must(t)(web.Run(ctx, "wait", "job/once", "--for=condition=Complete", "--timeout=3m"))
	eventually(t, func() error {
		n, err := web.Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", `jsonpath={range .items[*]}{.endpoints[*].conditions.ready} {end}`)
		if err == nil {
			err = want("ready endpoints", strings.Count(n, "true"), 3)
		}
		return err
	})
	o := observe(t, k, "shop")

	from := theLab.homeOf(t, k, "shop")
	pin(t, k, "shop", "west")
	settled(t, k, "shop", "west")
	must(t)(web.Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
	if out := must(t)(from.Run(ctx, "--namespace", from.namespace, "get", "deployments,statefulsets,replicasets,pods,services,resourcequotas", "-o", "name")); out != "" {
		t.Errorf("on east is still %q", out)
	}
	eventually(t, func() error { // the empty namespace goes after the move
		out, err := from.Run(ctx, "get", "namespace", from.namespace, "--ignore-not-found")
		if err == nil {
			err = want("on east", out, "")
		}
		return err
	})
	to := theLab.homeOf(t, k, "shop")
	for _, what := range []string{"deployment/web", "statefulset/one", "service/web", "configmap/settings", "resourcequota/pods"} {
		must(t)(to.below().Run(ctx, "get", what))
	}
	if out := must(t)(to.below().Run(ctx, "get", "jobs", "-o", "name")); out != "" {
		t.Errorf("what had run runs again: %s", out)
	}
	must(t)(web.Run(ctx, "wait", "job/once", "--for=condition=Complete", "--timeout=5s"))

	// Two changes of mind at once: the last one counts.
	pin(t, k, "shop", "east")
	pin(t, k, "shop", "west")
	pin(t, k, "shop", "east")
	settled(t, k, "shop", "east")
	must(t)(web.Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
	eventually(t, func() error {
		out, err := theLab.west.Run(ctx, "get", "namespace", from.namespace, "--ignore-not-found")
		if err == nil {
			err = want("on west", out, "")
		}
		return err
	})
	if least, most := o.read(); least < 3 || most > 1 {
		t.Errorf("there were moments with %d ready endpoints, and with %d pods of which one must run:\n%s", least, most, o.seen())
	}

	// The measure bites: what is broken before it is made has no endpoints.
	must(t)(web.Run(ctx, "scale", "deployment/web", "--replicas=0"))
	eventually(t, func() error { least, _ := o.read(); return want("least endpoints", least, 0) })
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

// A move that is over leaves an empty physical namespace, which is being deleted. A unit that
// comes back at once makes nothing in it, and begins in one of its own.
func TestANamespaceComesBackWhileWhatItLeftIsBeingDeleted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: back, annotations: {placement.atoll.dev/cluster: east}}}"))
	back := k.In("back")
	must(t)(back.Apply(ctx, "{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: moves}, spec: {move: {drainSeconds: 0}}}"))
	must(t)(back.Apply(ctx, deployment("web", 2)))
	must(t)(back.Apply(ctx, "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}"))
	must(t)(back.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	eventually(t, func() error {
		n, err := back.Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", `jsonpath={range .items[*]}{.endpoints[*].conditions.ready} {end}`)
		if err == nil {
			err = want("ready endpoints", strings.Count(n, "true"), 2)
		}
		return err
	})
	o := observe(t, k, "back")
	from := theLab.homeOf(t, k, "back")
	uid := must(t)(from.Run(ctx, "get", "namespace", from.namespace, "-o", "jsonpath={.metadata.uid}"))
	pin(t, k, "back", "west")
	settled(t, k, "back", "west")
	phase, err := from.Run(ctx, "get", "namespace", from.namespace, "--ignore-not-found", "-o", "jsonpath={.metadata.uid} {.status.phase}")
	if err != nil || phase != uid+" Terminating" {
		t.Logf("when the move was over, the namespace on east was %q (error %v)", phase, err)
	}
	pin(t, k, "back", "east")
	settled(t, k, "back", "east")
	again := must(t)(from.Run(ctx, "get", "namespace", from.namespace, "-o", "jsonpath={.metadata.uid} {.status.phase}"))
	if !strings.HasSuffix(again, " Active") || strings.HasPrefix(again, uid) {
		t.Errorf("on east is the namespace %q, that of before was %q", again, uid)
	}
	must(t)(from.Run(ctx, "--namespace", from.namespace, "rollout", "status", "deployment/web", "--timeout=1m"))
	if least, _ := o.read(); least < 2 {
		t.Errorf("there were moments with %d ready endpoints:\n%s", least, o.seen())
	}
	must(t)(k.Run(ctx, "delete", "namespace", "back", "--timeout=3m"))
}

func TestAMoveThatSomethingKeepsSaysWhatAndGoesOnWithoutIt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: kept, annotations: {placement.atoll.dev/cluster: east}}}"))
	kept := k.In("kept")
	must(t)(kept.Apply(ctx, "{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: moves}, spec: {move: {drainSeconds: 0}}}"))
	must(t)(kept.Apply(ctx, deployment("app", 1)))
	must(t)(kept.Run(ctx, "run", "shell", "--image=busybox"))
	must(t)(kept.Run(ctx, "wait", "pod/shell", "--for=condition=Ready", "--timeout=3m"))
	if out := pin(t, k, "kept", "west"); !strings.Contains(out, "Pod shell on east: no controller makes it again elsewhere") {
		t.Logf("kubectl prints warnings elsewhere: %q", out)
	}
	must(t)(kept.Run(ctx, "wait", "placement/namespace", "--for=condition=Moving=False", "--timeout=1m"))
	message := must(t)(kept.Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].reason}: {.status.conditions[?(@.type=="Moving")].message}`))
	if !strings.HasPrefix(message, "Blocked: Pod shell on east") {
		t.Errorf("the placement says %q", message)
	}
	if err := want("target of kept", theLab.homeOf(t, k, "kept").name, "east"); err != nil {
		t.Error(err)
	}
	must(t)(kept.Run(ctx, "delete", "pod", "shell", "--now"))
	settled(t, k, "kept", "west")
	must(t)(k.Run(ctx, "delete", "namespace", "kept", "--timeout=3m"))
}

// A user replaces a Deployment without its pods, as people do with what cannot be changed: they go on, are shown, and are no
// more ended by a move than a Pod that a user made.
func TestWhatAControllerLeftBehindGoesOnAndKeepsItsNamespace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: left, annotations: {placement.atoll.dev/cluster: east}}}"))
	left := k.In("left")
	must(t)(left.Apply(ctx, "{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: moves}, spec: {move: {drainSeconds: 0}}}"))
	must(t)(left.Apply(ctx, deployment("app", 2)))
	must(t)(left.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "left")
	uids := func(k process.Kubectl, what string) string {
		return must(t)(k.Run(ctx, "get", what, "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata.uid}"))
	}
	owners := func(k process.Kubectl, n int) func() error {
		return func() error {
			out, err := k.Run(ctx, "get", "replicasets", "-o", "jsonpath={.items[*].metadata.ownerReferences[*].kind}")
			if got := len(strings.Fields(out)); err == nil && got != n {
				return fmt.Errorf("%d of the ReplicaSets have owners, want %d: %s", got, n, out)
			}
			return err
		}
	}
	set, above, below := uids(left, "replicasets"), uids(left, "pods"), uids(h.below(), "pods")
	for range 5 {
		must(t)(left.Run(ctx, "delete", "deployment", "app", "--cascade=orphan", "--timeout=3m"))
		eventually(t, owners(left, 0))
		eventually(t, owners(h.below(), 0))
		must(t)(left.Apply(ctx, deployment("app", 2)))
		eventually(t, owners(left, 1))
		must(t)(left.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	}
	must(t)(left.Run(ctx, "delete", "deployment", "app", "--cascade=orphan", "--timeout=3m"))
	eventually(t, owners(h.below(), 0))

	pin(t, k, "left", "west")
	must(t)(left.Run(ctx, "wait", "placement/namespace", "--for=condition=Moving=False", "--timeout=1m"))
	message := must(t)(left.Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].reason}: {.status.conditions[?(@.type=="Moving")].message}`))
	if !strings.HasPrefix(message, "Blocked: ReplicaSet app-") {
		t.Errorf("the placement says %q", message)
	}
	for what, kept := range map[string][2]string{
		"ReplicaSets above": {set, uids(left, "replicasets")}, "pods above": {above, uids(left, "pods")}, "pods below": {below, uids(h.below(), "pods")},
	} {
		if kept[0] != kept[1] {
			t.Errorf("%s: %s before, %s after their Deployment was replaced", what, kept[0], kept[1])
		}
	}
	must(t)(left.Apply(ctx, deployment("app", 2))) // which has them again, and moves
	settled(t, k, "left", "west")
	must(t)(left.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)(k.Run(ctx, "delete", "namespace", "left", "--timeout=3m"))
}

func TestAPolicyThatChangesMovesWhatItSelects(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	policy := func(region string) string {
		apply := web.Command(ctx, "apply", "-f", "-")
		apply.Stdin = strings.NewReader("{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: here}, spec: {move: {drainSeconds: 0}, terms: [{matchLabels: {topology.kubernetes.io/region: " + region + "}}]}}")
		out, err := apply.CombinedOutput()
		return must(t)(string(out), err)
	}
	policy("west")
	must(t)(web.Apply(ctx, deployment("app", 2)))
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	settled(t, k, "web", "west")
	eventually(t, func() error { // pods are mirrored a moment after they run
		n, err := web.Run(ctx, "get", "pods", "-o", "name")
		if err == nil {
			err = want("mirrored pods", strings.Count(n, "pod/"), 2)
		}
		return err
	})
	if out := policy("east"); !strings.Contains(out, "Warning: this moves 1 unit with 2 pods (web), as far as there is somewhere to go") {
		t.Errorf("the answer to the edit is %q", out)
	}
	settled(t, k, "web", "east")
	must(t)(web.Run(ctx, "wait", "placement/namespace", "--for=condition=PolicySatisfied", "--timeout=1m"))
	must(t)(k.Run(ctx, "delete", "namespace", "web", "--timeout=3m"))
}

func TestADrainedPhysicalClusterIsEmptyAndCanGo(t *testing.T) {
	long(t)
	ctx := context.Background()
	var started []*physicalCluster
	for _, name := range []string{"old", "new"} {
		p, err := theLab.startPhysical(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		started = append(started, p)
		if err := theLab.register(ctx, name, p.Kubeconfig, "{key: e2e, value: drain, effect: NoSchedule}"); err != nil {
			t.Fatal(err)
		}
		must(t)(theLab.root.Run(ctx, "label", "physicalcluster/"+name, "e2e=drain"))
	}
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/old", "physicalcluster/new"))
	must(t)(theLab.root.Apply(ctx, `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: drain}
spec:
  namespaceSelector: {matchLabels: {e2e: drain}}
  terms: [{matchLabels: {e2e: drain}}]
  tolerations: [{key: e2e, operator: Exists}]
  move: {drainSeconds: 1}
`))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "drain")) })
	k := theLab.newCluster(t)
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/new", "--type=merge", "-p", `{"spec":{"unschedulable":true}}`))
	const namespaces = 4
	for i := range namespaces {
		name := fmt.Sprintf("web-%d", i)
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", labels: {e2e: drain}}}"))
		must(t)(k.In(name).Apply(ctx, shop))
	}
	must(t)(k.In("web-0").Run(ctx, "run", "shell", "--image=busybox"))
	for i := range namespaces {
		must(t)(k.In(fmt.Sprintf("web-%d", i)).Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	}
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/old", "--type=merge", "-p", `{"spec":{"drain":{"requested":true}}}`))

	// Nowhere to go: it says so, and everything runs on.
	drained := func(want string) func() error {
		return func() error {
			c := meta.FindStatusCondition(physical(t, "old").Status.Conditions, fleetv1alpha1.ConditionDrained)
			if c == nil || string(c.Status)+" "+c.Reason != want {
				return fmt.Errorf("the condition is %+v, want %s", c, want)
			}
			return nil
		}
	}
	eventually(t, drained("False Blocked"))
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/new", "--type=merge", "-p", `{"spec":{"unschedulable":false}}`))

	// One has a pod that nothing makes again: it alone stays.
	eventually(t, func() error {
		status := physical(t, "old").Status.Drain
		if status == nil || status.Namespaces != 1 || len(status.Blockers) != 1 || status.Blockers[0].Namespace != "web-0" || !strings.Contains(status.Blockers[0].Message, "Pod shell") {
			return fmt.Errorf("the drain is at %+v", status)
		}
		return nil
	})
	must(t)(k.In("web-0").Run(ctx, "delete", "pod", "shell", "--now"))
	eventually(t, drained("True Drained"))
	seen := physical(t, "old").Status.Drain.Seen
	if seen == nil || seen.Objects != 0 || seen.By == "" {
		t.Errorf("the evidence is %+v", seen)
	}
	for i := range namespaces {
		settled(t, k, fmt.Sprintf("web-%d", i), "new")
	}
	left := must(t)(started[0].Run(ctx, "get", "namespaces,deployments,pods", "-A", "-l", placementv1alpha1.ManagedByLabel, "-o", "name"))
	if err := want("what is left", left, ""); err != nil {
		t.Error(err)
	}
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster", "old", "--timeout=1m"))
	for i := range namespaces {
		must(t)(k.Run(ctx, "delete", "namespace", fmt.Sprintf("web-%d", i), "--timeout=3m"))
	}
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster", "new", "--timeout=1m"))
}
