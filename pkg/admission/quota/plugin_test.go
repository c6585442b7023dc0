package quota

import (
	"context"
	"strings"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func quota(cluster logicalcluster.Name, hard, used string) *corev1.ResourceQuota {
	limits := corev1.ResourceList{"count/configmaps": resource.MustParse(hard)}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "quota", UID: "1", ResourceVersion: "1", Annotations: map[string]string{logicalcluster.AnnotationKey: cluster.String()}},
		Spec:       corev1.ResourceQuotaSpec{Hard: limits},
		Status:     corev1.ResourceQuotaStatus{Hard: limits, Used: corev1.ResourceList{"count/configmaps": resource.MustParse(used)}},
	}
}

// known is an informer that has these quotas, and never hears of a change.
func known(t *testing.T, quotas ...*corev1.ResourceQuota) *controller.Informer[*corev1.ResourceQuota] {
	t.Helper()
	list := &corev1.ResourceQuotaList{}
	for _, q := range quotas {
		list.Items = append(list.Items, *q)
	}
	i := controller.NewInformer("test", &corev1.ResourceQuota{}, controller.ListWatch{
		List:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, controller.InformerOptions[*corev1.ResourceQuota]{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); i.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := i.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	return i
}

func create(ctx context.Context, p admission.Interface, dryRun bool) error {
	obj := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "c"}}
	a := admission.NewAttributesRecord(obj, nil, core.Kind("ConfigMap").WithVersion("v1"), "web", "c",
		core.Resource("configmaps").WithVersion("v1"), "", admission.Create, nil, dryRun, &user.DefaultInfo{})
	return p.(admission.ValidationInterface).Validate(ctx, a, nil)
}

func plugged(t *testing.T, kube *fake.Clientset, quotas ...*corev1.ResourceQuota) admission.Interface {
	t.Helper()
	p, err := New(kube, known(t, quotas...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestChargesAreSeenBeforeTheInformerHasThem(t *testing.T) {
	kube := fake.NewClientset()
	version := int64(1)
	kube.PrependReactor("update", "resourcequotas", func(a clienttesting.Action) (bool, runtime.Object, error) {
		q := a.(clienttesting.UpdateAction).GetObject().(*corev1.ResourceQuota).DeepCopy()
		version++
		q.ResourceVersion = resource.NewQuantity(version, resource.DecimalSI).String()
		return true, q, nil
	})
	p := plugged(t, kube, quota("a", "2", "0"), quota("b", "2", "2"))
	own := scope.WithCluster(t.Context(), "a")
	for i := range 2 {
		if err := create(own, p, false); err != nil {
			t.Fatalf("object %d: %v", i, err)
		}
	}
	if err := create(own, p, false); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "used: count/configmaps=2, limited: count/configmaps=2") {
		t.Errorf("got %v, want a refusal", err)
	}
	if err := create(scope.WithCluster(t.Context(), "c"), p, false); err != nil {
		t.Errorf("without a quota: %v", err)
	}
}

func TestAChargeThatComesTooLateIsCheckedAgain(t *testing.T) {
	kube := fake.NewClientset(quota("", "1", "1")) // somebody else took the last one
	kube.PrependReactor("update", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(corev1.Resource("resourcequotas"), "quota", nil)
	})
	p := plugged(t, kube, quota("a", "1", "0"))
	if err := create(scope.WithCluster(t.Context(), "a"), p, false); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestAQuotaThatIsNotCountedYetRefuses(t *testing.T) {
	q := quota("a", "1", "0")
	q.Status.Used = nil
	p := plugged(t, fake.NewClientset(), q)
	if err := create(scope.WithCluster(t.Context(), "a"), p, false); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "status unknown for quota: quota") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestADryRunIsChargedToNobody(t *testing.T) {
	kube := fake.NewClientset()
	p := plugged(t, kube, quota("a", "1", "0"))
	for range 2 {
		if err := create(scope.WithCluster(t.Context(), "a"), p, true); err != nil {
			t.Fatal(err)
		}
	}
	if actions := kube.Actions(); len(actions) != 0 {
		t.Errorf("requests %v, want none", actions)
	}
}
