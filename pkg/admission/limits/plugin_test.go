package limits

import (
	"context"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func limitRange(cluster logicalcluster.Name, cpu string) corev1.LimitRange {
	return corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "limits", Annotations: map[string]string{logicalcluster.AnnotationKey: cluster.String()}},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}},
	}
}

// known is an informer that has these limits.
func known(t *testing.T, items ...corev1.LimitRange) *controller.Informer[*corev1.LimitRange] {
	t.Helper()
	i := controller.NewInformer("test", &corev1.LimitRange{}, controller.ListWatch{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.LimitRangeList{Items: items}, nil
		},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, controller.InformerOptions[*corev1.LimitRange]{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); i.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := i.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	return i
}

// requests is what the container of a new pod requests after admission.
func requests(t *testing.T, p admission.Interface, cluster logicalcluster.Name) string {
	t.Helper()
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "p"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "main"}}}}
	a := admission.NewAttributesRecord(pod, nil, core.Kind("Pod").WithVersion("version"), "web", "p",
		core.Resource("pods").WithVersion("version"), "", admission.Create, nil, false, &user.DefaultInfo{})
	if err := p.(admission.MutationInterface).Admit(scope.WithCluster(t.Context(), cluster), a, nil); err != nil {
		t.Fatal(err)
	}
	return pod.Spec.Containers[0].Resources.Requests.CPU().String()
}

func TestLimitsAreThoseOfTheLogicalCluster(t *testing.T) {
	kube := fake.NewClientset()
	p := New(Config{Kube: kube, Limits: known(t, limitRange("a", "100m"), limitRange("b", "200m"))})
	for cluster, want := range map[logicalcluster.Name]string{"a": "100m", "b": "200m", "c": "0"} {
		if got := requests(t, p, cluster); got != want {
			t.Errorf("%s: a pod requests %s, want %s", cluster, got, want)
		}
	}
}

func TestANamespaceWithoutLimitsIsLookedAtOnceInAWhile(t *testing.T) {
	kube, clock := fake.NewClientset(), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	asked := 0
	kube.PrependReactor("list", "limitranges", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		return true, &corev1.LimitRangeList{}, nil
	})
	p := New(Config{Kube: kube, Limits: known(t), Clock: clock})
	requests(t, p, "a")
	requests(t, p, "a")
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	requests(t, p, "b")
	if asked != 2 {
		t.Error("what is remembered of one logical cluster counts for another")
	}
	clock.SetTime(clock.Now().Add(noneTTL + time.Second))
	requests(t, p, "a")
	if asked != 3 {
		t.Error("it is remembered for ever")
	}
}

func TestLimitsThatTheInformerDoesNotHaveYetCount(t *testing.T) {
	l := limitRange("a", "300m")
	p := New(Config{Kube: fake.NewClientset(&l), Limits: known(t)})
	if got := requests(t, p, "a"); got != "300m" {
		t.Errorf("a pod requests %s, want 300m", got)
	}
}

func TestNothingIsReadForWhatHasNoLimits(t *testing.T) {
	kube := fake.NewClientset()
	p := New(Config{Kube: kube, Limits: known(t)})
	a := admission.NewAttributesRecord(&core.ConfigMap{}, nil, core.Kind("ConfigMap").WithVersion("version"), "web", "c",
		core.Resource("configmaps").WithVersion("version"), "", admission.Create, nil, false, &user.DefaultInfo{})
	if err := p.(admission.MutationInterface).Admit(scope.WithCluster(t.Context(), "a"), a, nil); err != nil {
		t.Fatal(err)
	}
	if actions := kube.Actions(); len(actions) != 0 {
		t.Errorf("requests %v, want none", actions)
	}
}
