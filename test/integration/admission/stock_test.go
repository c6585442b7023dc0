package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestALimitRangeOfOneLogicalClusterGivesItsPodsDefaultsAndBounds(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "limits")
	createPod(t, s, own, pod("before")) // the namespace is looked at while it has none
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type:           corev1.LimitTypeContainer,
		DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		Max:            corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}}
	if _, err := s.Kube.CoreV1().LimitRanges("web").Create(own, limits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod gets the default", func() error {
		p, err := s.Kube.CoreV1().Pods("web").Create(own, pod("p"), metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return err
		}
		if got := p.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "100m" {
			return fmt.Errorf("it requests %s", got)
		}
		return nil
	})
	greedy := pod("greedy")
	greedy.Spec.Containers[0].Resources = requests("2")
	greedy.Spec.Containers[0].Resources.Limits = greedy.Spec.Containers[0].Resources.Requests
	_, err := s.Kube.CoreV1().Pods("web").Create(own, greedy, metav1.CreateOptions{})
	forbidden(t, err, "maximum cpu usage per Container is 1")

	if p := createPod(t, s, other, pod("p")); len(p.Spec.Containers[0].Resources.Requests) != 0 {
		t.Errorf("a pod of another logical cluster got %v", p.Spec.Containers[0].Resources)
	}
	createPod(t, s, other, greedy)
}

func TestAPodGetsTheDefaultServiceAccountAndOneThatIsMissingIsRefused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "accounts")
	p := createPod(t, s, own, pod("p"))
	if p.Spec.ServiceAccountName != "default" {
		t.Errorf("service account %q, want default", p.Spec.ServiceAccountName)
	}
	hasToken := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, "kube-api-access-") })
	if !hasToken {
		t.Errorf("volumes %v, want one for a token", p.Spec.Volumes)
	}
	builder := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}, AutomountServiceAccountToken: new(bool)}
	if _, err := s.Kube.CoreV1().ServiceAccounts("web").Create(other, builder, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	withBuilder := pod("b")
	withBuilder.Spec.ServiceAccountName = "builder"
	_, err := s.Kube.CoreV1().Pods("web").Create(own, withBuilder, metav1.CreateOptions{})
	forbidden(t, err, `serviceaccount "builder" not found`)
	p = createPod(t, s, other, withBuilder)
	if diff := cmp.Diff(builder.ImagePullSecrets, p.Spec.ImagePullSecrets); diff != "" || len(p.Spec.Volumes) != 0 {
		t.Errorf("pull secrets (-want +got):\n%s\nvolumes %v, want none", diff, p.Spec.Volumes)
	}
}

func TestPrioritiesAreThoseOfTheLogicalCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "priorities")
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
	if _, err := s.Kube.SchedulingV1().PriorityClasses().Create(own, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	high := pod("high")
	high.Spec.PriorityClassName = "high"
	eventually(t, "the class is known", func() error {
		_, err := s.Kube.CoreV1().Pods("web").Create(own, high, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	})
	if p := createPod(t, s, own, high); p.Spec.Priority == nil || *p.Spec.Priority != 1000 {
		t.Errorf("priority %v, want 1000", p.Spec.Priority)
	}
	_, err := s.Kube.CoreV1().Pods("web").Create(other, high, metav1.CreateOptions{})
	forbidden(t, err, "no PriorityClass with name high was found")

	system := pod("system")
	system.Spec.PriorityClassName = "system-cluster-critical"
	if p := createPod(t, s, other, system); p.Spec.Priority == nil || *p.Spec.Priority != 2000000000 {
		t.Errorf("priority %v, want that of system-cluster-critical", p.Spec.Priority)
	}
}

func TestPodsTolerateNodesThatFailForAWhile(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "tolerations")
	var keys []string
	for _, toleration := range createPod(t, s, own, pod("p")).Spec.Tolerations {
		keys = append(keys, toleration.Key)
	}
	if diff := cmp.Diff([]string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}, keys); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestDefaultClassesAreThoseOfTheLogicalCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "classes")
	fast := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}, Provisioner: "example.com/fast"}
	if _, err := s.Kube.StorageV1().StorageClasses().Create(own, fast, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	edge := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "edge", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/edge"}}
	if _, err := s.Kube.NetworkingV1().IngressClasses().Create(own, edge, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	dryRun := metav1.CreateOptions{DryRun: []string{"All"}}
	eventually(t, "the classes are used", func() error {
		c, err := s.Kube.CoreV1().PersistentVolumeClaims("web").Create(own, claim, dryRun)
		if err != nil {
			return err
		}
		i, err := s.Kube.NetworkingV1().Ingresses("web").Create(own, ingress, dryRun)
		if err != nil {
			return err
		}
		if c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != "fast" || i.Spec.IngressClassName == nil || *i.Spec.IngressClassName != "edge" {
			return fmt.Errorf("storage class %v, ingress class %v", c.Spec.StorageClassName, i.Spec.IngressClassName)
		}
		return nil
	})
	c, err := s.Kube.CoreV1().PersistentVolumeClaims("web").Create(other, claim, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Kube.NetworkingV1().Ingresses("web").Create(other, ingress, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	if c.Spec.StorageClassName != nil || i.Spec.IngressClassName != nil {
		t.Errorf("another logical cluster got storage class %v, ingress class %v", c.Spec.StorageClassName, i.Spec.IngressClassName)
	}
}

// Which classes there are on physical clusters the logical cluster does not know: those decide.
func TestAClaimGrowsUnlessAClassOfTheLogicalClusterForbidsIt(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, _ := clusters(t, s, "growing")
	for name, grows := range map[string]*bool{"fixed": nil, "growing": ptr.To(true)} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks", AllowVolumeExpansion: grows}
		if _, err := s.Kube.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	claims := s.Kube.CoreV1().PersistentVolumeClaims("web")
	for _, c := range []struct {
		name, class string
		phase       corev1.PersistentVolumeClaimPhase
		refused     string
	}{
		{"of-fixed", "fixed", corev1.ClaimBound, "the storageclass that provisions the pvc must support resize"},
		{"of-growing", "growing", corev1.ClaimBound, ""},
		{"of-another", "of-a-physical-cluster", corev1.ClaimBound, ""},
		{"of-none", "", corev1.ClaimBound, ""},
		{"pending", "of-a-physical-cluster", corev1.ClaimPending, "spec is immutable after creation"},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
		if c.class != "" {
			claim.Spec.StorageClassName = &c.class
		}
		claim, err := claims.Create(ctx, claim, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		claim.Status.Phase = c.phase
		if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.name+" grows or not", func() error { // the classes may not be known yet
			larger := claim.DeepCopy()
			larger.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
			switch _, err := claims.Update(ctx, larger, metav1.UpdateOptions{DryRun: []string{"All"}}); {
			case c.refused == "":
				return err
			case err == nil || !strings.Contains(err.Error(), c.refused):
				return fmt.Errorf("it is answered %w, want %q", err, c.refused)
			}
			return nil
		})
	}
}

func TestARuntimeClassOfTheLogicalClusterSetsTheOverhead(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "runtimes")
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Handler: "kata",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}}}
	if _, err := s.Kube.NodeV1().RuntimeClasses().Create(own, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := pod("p")
	p.Spec.RuntimeClassName = &class.Name
	if created := createPod(t, s, own, p); created.Spec.Overhead.Cpu().String() != "50m" {
		t.Errorf("overhead %v, want 50m", created.Spec.Overhead)
	}
	_, err := s.Kube.CoreV1().Pods("web").Create(other, p, metav1.CreateOptions{})
	forbidden(t, err, `RuntimeClass "kata" not found`)
}

func TestPodSecurityFollowsTheLabelsOfTheNamespace(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "podsecurity")
	makeNamespace(t, s, own, "strict", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	makeNamespace(t, s, other, "strict", nil)
	_, err := s.Kube.CoreV1().Pods("strict").Create(own, pod("p"), metav1.CreateOptions{})
	forbidden(t, err, `violates PodSecurity "restricted:latest"`)
	if _, err := s.Kube.CoreV1().Pods("strict").Create(other, pod("p"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}
