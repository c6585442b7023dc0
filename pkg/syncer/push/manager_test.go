package push

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/syncer/agent"
)

// clusters is an informer that holds one PhysicalCluster.
func clusters(t *testing.T, pc *fleetv1alpha1.PhysicalCluster) *controller.Informer[*fleetv1alpha1.PhysicalCluster] {
	t.Helper()
	i := controller.NewInformer("test", &fleetv1alpha1.PhysicalCluster{}, controller.ListWatch{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &fleetv1alpha1.PhysicalClusterList{Items: []fleetv1alpha1.PhysicalCluster{*pc}}, nil
		},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{})
	go i.Run(t.Context())
	if err := i.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func east() *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "east", UID: "1", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"},
	}}
	pc.Spec.Connection = fleetv1alpha1.Connection{
		Type: fleetv1alpha1.ConnectionPush, KubeconfigSecretRef: &fleetv1alpha1.SecretReference{Namespace: "atoll-system", Name: "east"},
	}
	return pc
}

func TestAnAgentRunsWhileItsPhysicalClusterWantsOne(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "atoll-system", Name: "east"},
		Data:       map[string][]byte{fleetv1alpha1.KubeconfigKey: []byte(kubeconfig("server: https://h", "token: x"))},
	}
	var mu sync.Mutex
	var events []string
	note := func(event string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, event)
	}
	started := make(chan struct{}, 10)
	m := New(Config{Client: atollfake.NewSimpleClientset(east()), Kube: kubefake.NewClientset(secret)})
	m.start = func(ctx context.Context, c agent.Config) error {
		note("start " + c.PhysicalCluster + " " + c.Physical.Host)
		started <- struct{}{}
		<-ctx.Done()
		note("stop " + c.PhysicalCluster)
		return nil
	}
	reconcile := func(change func(*fleetv1alpha1.PhysicalCluster)) {
		t.Helper()
		pc := east()
		change(pc)
		m.PhysicalClusters = clusters(t, pc)
		if _, err := m.reconcile(t.Context(), controller.Request{Cluster: "root", Name: "east"}); err != nil {
			t.Fatal(err)
		}
	}
	running := func() {
		t.Helper()
		select {
		case <-started:
		case <-time.After(10 * time.Second):
			t.Fatal("no agent is started")
		}
	}
	reconcile(func(*fleetv1alpha1.PhysicalCluster) {})
	running()
	reconcile(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Unschedulable = true }) // no reason to restart
	reconcile(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Forget = true })
	reconcile(func(*fleetv1alpha1.PhysicalCluster) {})
	running()
	reconcile(func(pc *fleetv1alpha1.PhysicalCluster) { pc.UID = "2" }) // registered anew
	running()
	reconcile(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Connection.Type = fleetv1alpha1.ConnectionPull })
	want := []string{"start east https://h", "stop east", "start east https://h", "stop east", "start east https://h", "stop east"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
