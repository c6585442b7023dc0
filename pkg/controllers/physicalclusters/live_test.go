package physicalclusters

import (
	"context"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func east(uid types.UID, forget bool) *fleetv1alpha1.PhysicalCluster {
	return &fleetv1alpha1.PhysicalCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east", UID: uid}, Spec: fleetv1alpha1.PhysicalClusterSpec{Forget: forget},
	}
}

func TestAHeartbeatGoesOnlyWhenTheServerSaysThatItsPhysicalClusterIsGone(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleetv1alpha1.LeaseNamespace, Name: "east", UID: "l", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"},
	}}
	for name, live := range map[string][]runtime.Object{"registered, the informer does not know it yet": {east("u", false)}, "gone": nil} {
		t.Run(name, func(t *testing.T) {
			kube := kubefake.NewClientset(lease.DeepCopy())
			leases := controller.NewInformer("leases", &coordinationv1.Lease{}, controller.ListWatch{
				List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*lease}}, nil
				},
				Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
			}, controller.InformerOptions[*coordinationv1.Lease]{})
			go leases.Run(t.Context())
			if err := leases.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			none := controller.NewInformer("none", &fleetv1alpha1.PhysicalCluster{}, controller.ListWatch{}, controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{})
			c := &Controller{Config: Config{Refusals: NewRefusals(clock.RealClock{}), Kinds: workload.Builtin(), Kube: kube, Client: fake.NewSimpleClientset(live...), Leases: leases, PhysicalClusters: none}, heartbeats: newHeartbeats(nil)}
			c.heartbeats.last["east"] = renewal{}
			if _, err := c.reconcile(t.Context(), keyOf("east")); err != nil {
				t.Fatal(err)
			}
			if len(c.heartbeats.last) != 0 {
				t.Error("its heartbeat is remembered for ever")
			}
			_, err := kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace).Get(t.Context(), "east", metav1.GetOptions{})
			if gone := apierrors.IsNotFound(err); gone != (live == nil) {
				t.Errorf("the Lease is gone: %v", gone)
			}
		})
	}
}

func TestAnOrderToForgetIsConfirmedByTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		live   []runtime.Object
		stands bool
	}{
		"it stands":                    {[]runtime.Object{east("u", true)}, true},
		"it was taken back":            {[]runtime.Object{east("u", false)}, false},
		"it was about a predecessor":   {[]runtime.Object{east("v", true)}, false},
		"the physical cluster is gone": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Controller{Config: Config{Refusals: NewRefusals(clock.RealClock{}), Kinds: workload.Builtin(), Client: fake.NewSimpleClientset(c.live...)}}).confirmForget(t.Context(), east("u", true))
			if (err == nil) != c.stands || err != nil && !apierrors.IsConflict(err) {
				t.Errorf("answered %v", err)
			}
		})
	}
}
