package placement

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testSilentDeletion deletes on physical clusters whose syncers are silent: each answer
// waits, and asks the server once. Only this test is about Ingresses.
func testSilentDeletion(t *testing.T) {
	ctx := newCluster(t, "silent-deletion")
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	client := shared.Kube.NetworkingV1().Ingresses("web")
	const objects = 10
	for i := range objects {
		ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("i", i)}, Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}}},
		}}
		created, err := client.Create(ctx, ingress, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(created.Finalizers) == 0 {
			t.Fatalf("it is not placed: %v", created.Annotations)
		}
	}
	before := requestsFor(t, "ingresses")
	var all sync.WaitGroup
	for i := range objects {
		all.Go(func() {
			if err := client.Delete(ctx, fmt.Sprint("i", i), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// Its own deletion and one look for each; what controllers read of each beside that,
	// twice where they were too early. Polling took 160 for each.
	if n := requestsFor(t, "ingresses") - before; n < 2*objects || n > 10*objects {
		t.Errorf("%d requests for %d deletions", n, objects)
	}
}

// requestsFor is how many requests for a resource the server has answered, its own
// included, save watches, and lists: namespaces of other tests that are divided into units
// list each kind.
func requestsFor(t *testing.T, resource string) int {
	t.Helper()
	data, err := shared.Kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(root(t))
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_request_total{") || !strings.Contains(line, `resource="`+resource+`"`) || strings.Contains(line, `verb="WATCH"`) || strings.Contains(line, `verb="LIST"`) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return int(total)
}
