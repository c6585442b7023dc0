package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
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

// unitsAtOnce is how many units TestADrainOfManyUnits drains; ATOLL_E2E_UNITS says another
// number. 200 take five minutes.
const unitsAtOnce = 40

// endpointsSeen follows how many endpoints of each Service are ready, as one who watches their slices.
type endpointsSeen struct {
	mu     sync.Mutex
	slices map[string]map[string]int // by namespace, then by slice
	empty  map[string]int            // how often a namespace was seen without any
}

func (r *endpointsSeen) note(s *discoveryv1.EndpointSlice, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ready := 0
	for _, e := range s.Endpoints {
		if !gone && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			ready++
		}
	}
	if r.slices[s.Namespace] == nil {
		r.slices[s.Namespace] = map[string]int{}
	}
	r.slices[s.Namespace][s.Name] = ready
	sum := 0
	for _, n := range r.slices[s.Namespace] {
		sum += n
	}
	if sum == 0 {
		r.empty[s.Namespace]++
	}
}

// unlimitedClient is a client of a logical cluster that waits for nobody.
func unlimitedClient(t *testing.T, k process.Kubectl) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// makeUnits makes namespaces of one Deployment and a Service each.
func makeUnits(t *testing.T, client kubernetes.Interface, n int) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	app := map[string]string{"app": "web"}
	for i := range n {
		name := fmt.Sprintf("unit-%d", i)
		g.Go(func() error {
			if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"e2e": "fleet"}}}, metav1.CreateOptions{}); err != nil {
				return err
			}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: app}
			d.Spec.Template.Labels = app
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
			if _, err := client.AppsV1().Deployments(name).Create(ctx, d, metav1.CreateOptions{}); err != nil {
				return err
			}
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: app, Ports: []corev1.ServicePort{{Port: 80}}}}
			_, err := client.CoreV1().Services(name).Create(ctx, s, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// watchEndpoints follows the slices until the test ends.
func watchEndpoints(t *testing.T, client kubernetes.Interface, services int) *endpointsSeen {
	t.Helper()
	r := &endpointsSeen{slices: map[string]map[string]int{}, empty: map[string]int{}}
	var version string
	eventually(t, func() error {
		list, err := client.DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		r.slices, version = map[string]map[string]int{}, list.ResourceVersion
		r.empty = map[string]int{}
		for i := range list.Items {
			r.note(&list.Items[i], false)
		}
		return want("services that lead somewhere", len(r.slices)-len(r.empty), services)
	})
	w, err := client.DiscoveryV1().EndpointSlices("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if s, ok := e.Object.(*discoveryv1.EndpointSlice); ok {
				r.note(s, e.Type == watch.Deleted)
			}
		}
	}()
	t.Cleanup(func() { w.Stop(); <-done })
	return r
}

// Everything leaves one of three physical clusters at once, a budget of it at a time, and no
// Service is without a ready endpoint at any moment.
func TestADrainOfManyUnitsLeavesNoServiceWithoutEndpoints(t *testing.T) {
	long(t)
	ctx := context.Background()
	units := unitsAtOnce
	if n, err := strconv.Atoi(os.Getenv("ATOLL_E2E_UNITS")); err == nil {
		units = n
	}
	full, err := theLab.startPhysical(ctx, "full")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = full.Stop() })
	if err := theLab.register(ctx, "full", full.Kubeconfig, "{key: e2e, value: fleet, effect: NoSchedule}"); err != nil {
		t.Fatal(err)
	}
	mark := func(name, value string) {
		must(t)(theLab.root.Run(ctx, "label", "--overwrite", "physicalcluster/"+name, "e2e-fleet"+value))
	}
	mark("full", "=yes")
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/full"))
	must(t)(theLab.root.Apply(ctx, `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: fleet}
spec:
  namespaceSelector: {matchLabels: {e2e: fleet}}
  terms: [{matchLabels: {e2e-fleet: "yes"}}]
  tolerations: [{key: e2e, operator: Exists}]
  move: {drainSeconds: 0}
`))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "fleet")) })
	k := theLab.newCluster(t)
	client := unlimitedClient(t, k)
	makeUnits(t, client, units)
	r := watchEndpoints(t, client, units)
	for _, name := range []string{"east", "west"} {
		mark(name, "=yes")
		t.Cleanup(func() { mark(name, "-") })
	}
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/full", "--type=merge", "-p", `{"spec":{"drain":{"requested":true,"maxMoving":40}}}`))

	most := int32(0)
	eventually(t, func() error {
		pc := physical(t, "full")
		if s := pc.Status.Drain; s != nil {
			most = max(most, s.Moving)
		}
		if !meta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionDrained) {
			return fmt.Errorf("the drain is at %+v", pc.Status.Drain)
		}
		return nil
	})
	r.mu.Lock()
	if len(r.empty) > 0 || len(r.slices) != units {
		t.Errorf("of %d Services these were without endpoints, so often: %v", len(r.slices), r.empty)
	}
	r.mu.Unlock()
	if most == 0 || most > 40 {
		t.Errorf("%d moved at a time, of at most 40", most)
	}
	if left := must(t)(full.Run(ctx, "get", "namespaces,deployments,pods", "-A", "-l", placementv1alpha1.ManagedByLabel, "-o", "name")); left != "" {
		t.Errorf("on the drained physical cluster is left %s", left)
	}
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster", "full", "--timeout=1m"))

	// The measure bites: a Service whose pods go is seen to be empty.
	must(t)(k.In("unit-0").Run(ctx, "scale", "deployment/web", "--replicas=0"))
	eventually(t, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return want("services without endpoints", len(r.empty), 1)
	})
}
