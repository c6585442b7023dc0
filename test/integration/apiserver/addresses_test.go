package apiserver

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// Two servers that are asked at the same moment give nobody what the other one gives, and neither does one of them.
func TestNoTwoServicesHaveOneAddressWhicheverServerIsAsked(t *testing.T) {
	t.Parallel()
	endpoint, dir := etcd.Start(t), t.TempDir()
	east := server.StartOn(t, dir, endpoint)
	defer func() { east.Stop(t) }()
	west := server.StartBeside(t, east, endpoint)
	defer func() { west.Stop(t) }()
	ctx := owned(t, east, "shop")

	const rounds, each = 10, 6
	for round := range rounds {
		t.Run(fmt.Sprint("chosen by users ", round), func(t *testing.T) {
			ip, port := fmt.Sprintf("10.97.0.%d", round), int32(31000+round)
			made, refused := atOnce(ctx, []*server.Server{east, west}, each, func(i int) *corev1.Service {
				s := balanced(fmt.Sprintf("chosen-%d-%d", round, i))
				s.Spec.ClusterIP, s.Spec.Ports[0].NodePort = ip, port
				return s
			})
			if len(made) != 1 {
				t.Errorf("%d Services have %s and port %d", len(made), ip, port)
			}
			for _, err := range refused {
				if !apierrors.IsInvalid(err) {
					t.Errorf("what another Service has is refused with %v", err)
				}
			}
		})
	}

	// Ports are looked for from a place that depends on the name.
	names := namesOfOnePort(rounds * each)
	made, refused := atOnce(ctx, []*server.Server{east, west}, len(names), func(i int) *corev1.Service { return balanced(names[i]) })
	if len(refused) > 0 {
		t.Errorf("%d Services are refused an address: %v", len(refused), refused[0])
	}
	whose := map[string]string{}
	for _, s := range made {
		for _, address := range []string{s.Spec.ClusterIP, fmt.Sprint(s.Spec.Ports[0].NodePort)} {
			if other := whose[address]; other != "" {
				t.Errorf("%s and %s have %s", s.Name, other, address)
			}
			whose[address] = s.Name
		}
	}
}

// balanced has a cluster IP and a port of nodes.
func balanced(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// atOnce has n Services made in the namespace default, half of them by each of two servers.
func atOnce(ctx context.Context, servers []*server.Server, n int, service func(i int) *corev1.Service) (made []*corev1.Service, refused []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			s, err := servers[i%len(servers)].Kube.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service(i), metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
			} else {
				made = append(made, s)
			}
		})
	}
	all.Wait()
	return made, refused
}

// namesOfOnePort are names for which a port is looked for from the same place.
func namesOfOnePort(n int) []string {
	place := func(name string) uint32 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(metav1.NamespaceDefault + "/" + name))
		return h.Sum32() % 2768
	}
	var names []string
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprintf("web-%d", i); place(name) == place("web-0") {
			names = append(names, name)
		}
	}
	return names
}
