package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// numbered is a StatefulSet of so many pods, with the Service by which they find each other.
const numbered = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: %d
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: db}]
`

// twins watches the pods of several physical clusters: none may begin that another one has.
type twins struct {
	mu    sync.Mutex
	begun int
	found []string
}

func watchTwins(t *testing.T, namespace string, on ...*physicalCluster) *twins {
	t.Helper()
	w := &twins{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	clients := make([]kubernetes.Interface, len(on))
	for i, p := range on {
		config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.QPS = -1
		clients[i] = kubernetes.NewForConfigOrDie(config)
	}
	for i := range on {
		running.Go(func() { w.follow(ctx, namespace, on, clients, i) })
	}
	return w
}

// follow asks the others for each pod that begins on one: it is on its way by then.
func (w *twins) follow(ctx context.Context, namespace string, on []*physicalCluster, clients []kubernetes.Interface, i int) {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		watching, err := clients[i].CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue // it may be down
		}
		for event := range watching.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type != watch.Added {
				continue
			}
			w.mu.Lock()
			w.begun++
			w.mu.Unlock()
			for j, other := range clients {
				if j == i {
					continue
				}
				twin, err := other.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) || err != nil && ctx.Err() != nil {
					continue
				}
				if err == nil || !isSilence(err) {
					w.mu.Lock()
					w.found = append(w.found, fmt.Sprintf("%s began on %s, and is on %s (%v): %v", pod.Name, on[i].name, on[j].name, twin.CreationTimestamp, err))
					w.mu.Unlock()
				}
			}
		}
	}
}

func isSilence(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }

func (w *twins) none(t *testing.T, atLeast int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, found := range w.found {
		t.Error(found)
	}
	if w.begun < atLeast {
		t.Errorf("only %d pods were seen to begin", w.begun)
	}
}

// podsOn waits until the pods of a StatefulSet run on physical clusters as it is said.
func podsOn(t *testing.T, namespace string, want map[*physicalCluster]string) {
	t.Helper()
	eventually(t, func() error {
		for at, pods := range want {
			got, err := at.In(namespace).Run(context.Background(), "get", "pods", "-l", "app=db", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata.name}")
			if err != nil {
				return err
			}
			if got != pods {
				return fmt.Errorf("on %s are %q, want %q", at.name, got, pods)
			}
		}
		return nil
	})
}

func db(from, to int) string {
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, fmt.Sprintf("db-%d", i))
	}
	return strings.Join(names, " ")
}

// rangesOf are the targets of a StatefulSet.
func rangesOf(ctx context.Context, k process.Kubectl) (targets placementv1alpha1.Targets, err error) {
	out, err := k.Run(ctx, "get", "statefulset", "db", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/targets}`)
	if err == nil {
		err = json.Unmarshal([]byte(out), &targets)
	}
	return targets, err
}

func TestAStatefulSetIsDividedByOrdinalsAndNoneRunsTwice(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: numbers}}"))
	shop := k.In("numbers")
	must(t)(shop.Apply(ctx, divided))
	east, west := theLab.east, theLab.west

	out := must(t)(shop.Apply(ctx, fmt.Sprintf(numbered, 6), "-o", "json"))
	if want := `{\"east\":{\"replicas\":3,\"ordinals\":{\"start\":0,\"revision\":1}},\"west\":{\"replicas\":3,\"ordinals\":{\"start\":3,\"revision\":1}}}`; !strings.Contains(out, want) {
		t.Errorf("the answer has other ranges: %s", out)
	}
	below := physicalNamespace(t, k, "numbers")
	twins := watchTwins(t, below, east, west)
	podsOn(t, below, map[*physicalCluster]string{east: db(0, 2), west: db(3, 5)})
	must(t)(shop.Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	eventually(t, func() error {
		got, err := shop.Run(ctx, "get", "pods", "-l", "app=db", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata.name}")
		if err == nil {
			err = want("mirrored pods", got, db(0, 5))
		}
		return err
	})
	status := func(all string) {
		t.Helper()
		eventually(t, func() error {
			got, err := shop.Run(ctx, "get", "statefulset", "db", "-o", "jsonpath={.status.replicas} {.status.readyReplicas} {.status.updatedReplicas} {.status.availableReplicas}")
			if err == nil {
				err = want("the status", got, all)
			}
			return err
		})
	}
	status("6 6 6 6")

	// More and fewer are at the end of the last range.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", weights(3, 5)))
	must(t)(shop.Run(ctx, "scale", "statefulset", "db", "--replicas=8"))
	podsOn(t, below, map[*physicalCluster]string{east: db(0, 2), west: db(3, 7)})
	must(t)(shop.Run(ctx, "scale", "statefulset", "db", "--replicas=6"))
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", weights(1, 1)))
	podsOn(t, below, map[*physicalCluster]string{east: db(0, 2), west: db(3, 5)})
	settled := func() error {
		targets, err := rangesOf(ctx, shop)
		for name, target := range targets {
			if err == nil && (target.Share != nil || target.Ordinals == nil || target.Ordinals.Held != nil) {
				err = fmt.Errorf("%s is not settled: %s", name, targets)
			}
		}
		return err
	}
	eventually(t, settled)

	// Other weights: what goes from one to the other begins there when its pod is gone, and that
	// takes as long as it takes.
	must(t)(east.In(below).Run(ctx, "patch", "pod", "db-2", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/slow"]}}`))
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", weights(1, 2)))
	eventually(t, func() error {
		out, err := east.In(below).Run(ctx, "get", "pod", "db-2", "-o", "jsonpath={.metadata.deletionTimestamp}")
		if err == nil && out == "" {
			err = fmt.Errorf("db-2 does not end on east")
		}
		return err
	})
	held(t, ctx, shop, "east", 3)
	if out := must(t)(west.In(below).Run(ctx, "get", "pods", "db-2", "--ignore-not-found", "-o", "name")); out != "" {
		t.Errorf("%s runs on west, and has not ended on east", out)
	}
	if out := must(t)(shop.Run(ctx, "get", "placement", "namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Divided")].message}`)); !strings.Contains(out, "StatefulSet db waits for 1 on west: east may run 0 to 2") {
		t.Errorf("the placement says %q", out)
	}
	must(t)(east.In(below).Run(ctx, "patch", "pod", "db-2", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`))
	podsOn(t, below, map[*physicalCluster]string{east: db(0, 1), west: db(2, 5)})
	eventually(t, settled)
	status("6 6 6 6")

	// An autoscaler would leave the range.
	must(t)(shop.Run(ctx, "autoscale", "statefulset", "db", "--min=2", "--max=9", "--cpu=50%"))
	eventually(t, func() error {
		out, err := shop.Run(ctx, "get", "copies", "-o", `jsonpath={range .items[?(@.spec.object.resource=="horizontalpodautoscalers")]}{.status.state} {.status.reason} {end}`)
		if err == nil {
			err = want("the copies of the autoscaler", out, "Failed ScalesRange Failed ScalesRange ")
		}
		return err
	})
	must(t)(shop.Run(ctx, "delete", "hpa", "db"))

	// All of it in one place: what is left is not begun before it is gone there.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", `{"spec":{"count":1,"terms":[{"matchLabels":{"topology.kubernetes.io/region":"west"}}]}}`))
	podsOn(t, below, map[*physicalCluster]string{west: db(0, 5)})
	eventually(t, func() error { return unitSettled(ctx, shop.Run, "namespace", 1) })

	// In two places again: where all of it runs keeps the first ones. Made anew it has the order
	// of the names, and what ran before ends first.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=json", "-p", `[{"op":"remove","path":"/spec/terms"},{"op":"replace","path":"/spec/count","value":2}]`))
	eventually(t, func() error { return unitSettled(ctx, shop.Run, "namespace", 2) })
	podsOn(t, below, map[*physicalCluster]string{west: db(0, 3), east: db(4, 5)})
	must(t)(shop.Run(ctx, "delete", "statefulset", "db"))
	must(t)(shop.Apply(ctx, fmt.Sprintf(numbered, 6)))
	podsOn(t, below, map[*physicalCluster]string{east: db(0, 1), west: db(2, 5)})
	status("6 6 6 6")
	twins.none(t, 16)
}

func weights(east, west int) string {
	return fmt.Sprintf(`{"spec":{"replicas":{"targets":[{"term":{"matchLabels":{"topology.kubernetes.io/region":"east"}},"weight":%d},{"weight":%d}]}}}`, east, west)
}

// held sees for a while that the other targets get nothing of what one may run.
func held(t *testing.T, ctx context.Context, k process.Kubectl, name string, end int32) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		targets, err := rangesOf(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		one := targets[name]
		if one.Ordinals == nil || one.Ordinals.Held == nil || one.Ordinals.Held.End < end {
			t.Fatalf("%s does not hold ordinals up to %d any more: %s", name, end-1, targets)
		}
		for other, target := range targets {
			if other != name && target.Ordinals.Start < end {
				t.Fatalf("%s has what may run on %s: %s", other, name, targets)
			}
		}
	}
}

const numberedPolicy = `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: numbered}
spec:
  namespaceSelector: {matchLabels: {e2e: numbered}}
  terms: [{matchLabels: {e2e: numbered}}]
  tolerations: [{key: e2e, operator: Exists}]
  count: 2
  replicas: {mode: Divide, targets: [{term: {matchLabels: {first: "yes"}}, weight: %d}, {weight: %d}]}
`

func TestOrdinalsOfALostPhysicalClusterAreNotBegunElsewhere(t *testing.T) {
	long(t)
	ctx := context.Background()
	started := map[string]*physicalCluster{}
	for _, name := range []string{"numbered-a", "numbered-b"} {
		p, err := theLab.startPhysical(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		started[name] = p
		if err := theLab.register(ctx, name, p.Kubeconfig, "{key: e2e, value: numbered, effect: NoSchedule}"); err != nil {
			t.Fatal(err)
		}
		first := map[string]string{"numbered-a": "yes", "numbered-b": "no"}[name]
		must(t)(theLab.root.Run(ctx, "label", "physicalcluster/"+name, "e2e=numbered", "first="+first))
	}
	a, b := started["numbered-a"], started["numbered-b"]
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/numbered-a", "physicalcluster/numbered-b"))
	must(t)(theLab.root.Apply(ctx, fmt.Sprintf(numberedPolicy, 1, 1)))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "numbered")) })

	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: numbers, labels: {e2e: numbered}}}"))
	shop := k.In("numbers")
	must(t)(shop.Apply(ctx, fmt.Sprintf(numbered, 4)))
	below := physicalNamespace(t, k, "numbers")
	twins := watchTwins(t, below, a, b)
	podsOn(t, below, map[*physicalCluster]string{a: db(0, 1), b: db(2, 3)})

	a.Kill()
	must(t)(theLab.root.Apply(ctx, fmt.Sprintf(numberedPolicy, 1, 3)))
	eventually(t, func() error {
		targets, err := rangesOf(ctx, shop)
		if one := targets["numbered-a"]; err == nil && (one.Replicas == nil || *one.Replicas != 1) {
			err = fmt.Errorf("it is not divided anew: %s", targets)
		}
		return err
	})
	held(t, ctx, shop, "numbered-a", 2)
	podsOn(t, below, map[*physicalCluster]string{b: db(2, 3)})
	// What it never had others get at once.
	must(t)(shop.Run(ctx, "scale", "statefulset", "db", "--replicas=5"))
	podsOn(t, below, map[*physicalCluster]string{b: db(2, 4)})

	restart(t, a.Process)
	podsOn(t, below, map[*physicalCluster]string{a: db(0, 0), b: db(1, 4)})
	must(t)(shop.Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	twins.none(t, 6)
	must(t)(k.Run(ctx, "delete", "namespace", "numbers", "--timeout=3m"))
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster", "numbered-a", "numbered-b", "--timeout=2m"))
}

// TestNoOrdinalRunsTwiceWhileTheServerDies moves ordinals to and fro, and kills the server, with
// its syncers, at any moment of it.
func TestNoOrdinalRunsTwiceWhileTheServerDies(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east", "west")
	k := l.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: numbers}}"))
	shop := k.In("numbers")
	must(t)(shop.Apply(ctx, divided))
	must(t)(shop.Apply(ctx, fmt.Sprintf(numbered, 6)))
	below := physicalNamespace(t, k, "numbers")
	twins := watchTwins(t, below, l.east, l.west)
	podsOn(t, below, map[*physicalCluster]string{l.east: db(0, 2), l.west: db(3, 5)})
	for i := range 6 {
		first := 1 + 4*(i%2)
		must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", weights(first, 6-first)))
		time.Sleep(time.Duration(i) * 300 * time.Millisecond)
		l.server.Kill()
		if err := l.server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		podsOn(t, below, map[*physicalCluster]string{l.east: db(0, first-1), l.west: db(first, 5)})
	}
	must(t)(shop.Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	twins.none(t, 25)
	must(t)(k.Run(ctx, "delete", "namespace", "numbers", "--timeout=3m"))
}
