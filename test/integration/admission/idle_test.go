package admission

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// settled is the number of goroutines once it stays for a while.
func settled(t *testing.T) int {
	t.Helper()
	last, since := runtime.NumGoroutine(), time.Now()
	deadline := time.Now().Add(time.Minute)
	for time.Since(since) < time.Second {
		if time.Now().After(deadline) {
			t.Fatalf("the number of goroutines does not settle: %d", last)
		}
		time.Sleep(20 * time.Millisecond)
		if n := runtime.NumGoroutine(); n != last {
			last, since = n, time.Now()
		}
	}
	return last
}

// Runs before the parallel tests, on a server of its own.
func TestLogicalClustersWithoutRulesCostNoGoroutine(t *testing.T) {
	s := server.Start(t)
	use := func(name string) {
		ctx := s.NewCluster(t, name)
		makeNamespace(t, s, ctx, "web", nil)
		createPod(t, s, ctx, pod("p"))
		if _, err := s.Kube.CoreV1().ConfigMaps("web").Create(ctx, configMap("c"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// rules are those of a logical cluster, for a moment.
	rules := func(name string) {
		ctx := s.NewCluster(t, name)
		makeNamespace(t, s, ctx, "web", nil)
		validate(t, s, ctx, admissionregistrationv1.ValidatingAdmissionPolicySpec{
			Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.name != 'bad'"}},
		}, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{})
		eventually(t, "the policy rules", func() error {
			if tryConfigMap(s, ctx, "bad") == nil {
				return fmt.Errorf("a bad name was accepted")
			}
			return nil
		})
		if err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "binding", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// The first object of a kind begins its watch cache, for all logical clusters.
	use("first")
	rules("first-ruled")
	before := settled(t)
	const n = 20
	for i := range n {
		use(fmt.Sprintf("idle-%d", i))
	}
	if after := settled(t); after-before >= n {
		t.Errorf("%d goroutines for %d logical clusters", after-before, n)
	}

	// Rules cost some, until they go.
	before = settled(t)
	rules("ruled")
	eventually(t, "the policy costs no more", func() error {
		if after := settled(t); after > before+2 {
			return fmt.Errorf("%d goroutines more", after-before)
		}
		return nil
	})
}
