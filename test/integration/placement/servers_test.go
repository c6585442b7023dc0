package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// TestSeveralServersPlaceNoMoreThanThereIsRoomFor has 50 namespaces get their first object at
// once, through two servers over one etcd, where there is room for 20 of them.
func TestSeveralServersPlaceNoMoreThanThereIsRoomFor(t *testing.T) {
	const namespaces, room = 50, 20
	endpoint := etcd.Start(t)
	east := server.StartOn(t, t.TempDir(), endpoint)
	defer func() { east.Stop(t) }()
	west := server.StartBeside(t, east, endpoint)
	defer func() { west.Stop(t) }()
	bounds := map[string]corev1.ResourceList{
		"namespaces": {fleetv1alpha1.BoundNamespaces: *resource.NewQuantity(room, resource.DecimalSI)},
		"cpu":        {corev1.ResourceCPU: *resource.NewQuantity(room, resource.DecimalSI)},
	}
	for round := range 3 {
		for what, bound := range bounds {
			name := fmt.Sprint(what, round)
			t.Run(name, func(t *testing.T) {
				east.Register(t, name, map[string]string{"round": name})
				east.Beat(t, name)
				bounded(t, east, name, bound)
				ctx := east.NewCluster(t, name)
				onlyOn(t, east, ctx, name)
				for n := range namespaces {
					ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}
					if _, err := east.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
						t.Fatalf("creating namespace %s: %v", ns.Name, err)
					}
				}
				began := time.Now()
				placed := fill(t, ctx, []*server.Server{east, west}, namespaces)
				t.Logf("%d of %d namespaces are placed after %s", len(placed), namespaces, time.Since(began).Round(time.Millisecond))
				if len(placed) != room {
					t.Errorf("%d of %d namespaces are placed, and there is room for %d: %v", len(placed), namespaces, room, placed)
				}
				standing(t, ctx, east, placed)
			})
		}
	}
}

// bounded bounds what is placed on a physical cluster.
func bounded(t *testing.T, s *server.Server, name string, bound corev1.ResourceList) {
	t.Helper()
	client := s.Atoll.FleetV1alpha1().PhysicalClusters()
	server.Eventually(t, waitTimeout, "bounding "+name, func() error {
		pc, err := client.Get(server.InRoot(t), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pc.Spec.Bounds = bound
		_, err = client.Update(server.InRoot(t), pc, metav1.UpdateOptions{})
		return err
	})
}

// onlyOn has everything of a logical cluster go to the physical cluster of a round.
func onlyOn(t *testing.T, s *server.Server, ctx context.Context, round string) {
	t.Helper()
	p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: round}}
	p.Spec.Terms = only("round", round)
	if _, err := s.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating policy %s: %v", round, err)
	}
}

// fill makes the first object of all namespaces at once, through the servers in turn, and returns
// the namespaces of those that have a place.
func fill(t *testing.T, ctx context.Context, servers []*server.Server, namespaces int) []string {
	t.Helper()
	var (
		mu     sync.Mutex
		placed []string
		all    sync.WaitGroup
		begin  = make(chan struct{})
	)
	for n := range namespaces {
		namespace, client := fmt.Sprint("n", n), servers[n%len(servers)].Kube
		all.Go(func() {
			d := deployment("web")
			d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			<-begin
			created, err := client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("creating a deployment in %s: %v", namespace, err)
			} else if targetsOf(created) != "" {
				placed = append(placed, namespace)
			}
		})
	}
	close(begin)
	all.Wait()
	slices.Sort(placed)
	return placed
}

// standing checks that what is stored is what was answered, and that what waits says why.
func standing(t *testing.T, ctx context.Context, s *server.Server, placed []string) {
	t.Helper()
	list, err := s.Atoll.PlacementV1alpha1().Placements("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var decided []string
	for _, p := range list.Items {
		if p.Spec.Decision != nil {
			decided = append(decided, p.Namespace)
			continue
		}
		c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionScheduled)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "bound") {
			t.Errorf("the placement of %s waits and says %+v", p.Namespace, c)
		}
		if p.Spec.Reservation != nil {
			t.Errorf("the placement of %s waits, with a reservation", p.Namespace)
		}
	}
	if slices.Sort(decided); !slices.Equal(placed, decided) {
		t.Errorf("answered as placed: %v; decided: %v", placed, decided)
	}
	if len(list.Items) < len(placed) {
		t.Errorf("%d placements of %d that are placed", len(list.Items), len(placed))
	}
}

// BenchmarkFirstObject places namespaces where something bounds what is placed, so that it is
// reserved before it is decided, and in turns where nothing does.
func BenchmarkFirstObject(b *testing.B) {
	s := server.Start(b)
	for _, name := range []string{"bounded", "boundless"} {
		s.Register(b, name, map[string]string{"round": name})
		s.Beat(b, name)
		s.Report(b, name, func(status *fleetv1alpha1.PhysicalClusterStatus) { status.Allocatable = nil })
	}
	client := s.Atoll.FleetV1alpha1().PhysicalClusters()
	server.Eventually(b, waitTimeout, "bounding", func() error {
		pc, err := client.Get(server.InRoot(b), "bounded", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pc.Spec.Bounds = corev1.ResourceList{fleetv1alpha1.BoundNamespaces: resource.MustParse("1000000")}
		_, err = client.Update(server.InRoot(b), pc, metav1.UpdateOptions{})
		return err
	})
	took := map[string][]time.Duration{}
	contexts := map[string]context.Context{}
	for _, name := range []string{"bounded", "boundless"} {
		contexts[name] = s.NewCluster(b, name)
		p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Terms = only("round", name)
		if _, err := s.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(contexts[name], p, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		n++
		for name, ctx := range contexts {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}
			if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			d, err := s.Kube.AppsV1().Deployments(ns.Name).Create(ctx, deployment("web"), metav1.CreateOptions{})
			if err != nil || targetsOf(d) != name {
				b.Fatalf("%v is placed on %q: %v", ns.Name, targetsOf(d), err)
			}
			took[name] = append(took[name], time.Since(began))
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return float64(took[name][len(took[name])/2].Microseconds()) / 1000
	}
	b.ReportMetric(median("bounded"), "ms-reserved")
	b.ReportMetric(median("boundless"), "ms-direct")
	b.ReportMetric(median("bounded")/median("boundless"), "ratio")
}
