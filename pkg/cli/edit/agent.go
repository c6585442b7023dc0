package edit

import (
	"bytes"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// SyncerAccount names what a syncer has on its physical cluster: the ServiceAccount, its role,
// the Deployment.
const SyncerAccount = "atoll-syncer"

// BootstrapSecret has the kubeconfig with which a syncer asks for its first certificate.
const BootstrapSecret = "atoll-syncer-bootstrap"

// bootstrapDir is where the Deployment mounts it.
const bootstrapDir = "/etc/atoll/bootstrap"

// Agent is a syncer that runs on its physical cluster.
type Agent struct {
	PhysicalCluster, Image string
	// Kubeconfig leads to the server with the token that registers.
	Kubeconfig []byte
}

// Manifest is what kubectl apply makes of an agent on its physical cluster.
func (a Agent) Manifest(kinds workload.Catalog) ([]byte, error) {
	const namespace = fleetv1alpha1.LeaseNamespace
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": SyncerAccount}}
	}
	in := func(name string) metav1.ObjectMeta {
		m := named(name)
		m.Namespace = namespace
		return m
	}
	objects := []runtime.Object{
		&corev1.Namespace{TypeMeta: typeOf("v1", "Namespace"), ObjectMeta: named(namespace)},
		&corev1.ServiceAccount{TypeMeta: typeOf("v1", "ServiceAccount"), ObjectMeta: in(SyncerAccount)},
		&rbacv1.ClusterRole{TypeMeta: typeOf("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: named(SyncerAccount), Rules: Needs(kinds)},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: typeOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), ObjectMeta: named(SyncerAccount),
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: SyncerAccount}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: SyncerAccount},
		},
		&corev1.Secret{TypeMeta: typeOf("v1", "Secret"), ObjectMeta: in(BootstrapSecret), Data: map[string][]byte{fleetv1alpha1.KubeconfigKey: a.Kubeconfig}},
		a.deployment(in(SyncerAccount)),
	}
	var out bytes.Buffer
	for _, o := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("encoding the manifest: %w", err)
		}
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
		data, err := yaml.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("encoding the manifest: %w", err)
		}
		out.WriteString("---\n" + string(data))
	}
	return out.Bytes(), nil
}

func typeOf(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

// deployment runs one syncer as nobody, without anything of its node.
func (a Agent) deployment(meta metav1.ObjectMeta) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta: typeOf("apps/v1", "Deployment"), ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: SyncerAccount,
					SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{
						Name: "atoll-syncer", Image: a.Image,
						Command: []string{"atoll-syncer"},
						Args:    []string{"--physical-cluster=" + a.PhysicalCluster, "--bootstrap-kubeconfig=" + bootstrapDir + "/" + fleetv1alpha1.KubeconfigKey, "--health-address=:8080"},
						// One that does not work with the server does not take the place of one that does.
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 5},
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
						VolumeMounts: []corev1.VolumeMount{{Name: "bootstrap", MountPath: bootstrapDir, ReadOnly: true}},
					}},
					Volumes: []corev1.Volume{{Name: "bootstrap", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: BootstrapSecret}}}},
				},
			},
		},
	}
}
