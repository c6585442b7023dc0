package placement

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// hostile are changes of pods that an attack sent to a physical cluster, each with the
// field that the refusal names.
var hostile = map[string]struct {
	field  string
	change func(*corev1.PodSpec)
}{
	"a privileged container": {"spec.template.spec: violates PodSecurity baseline:latest", func(s *corev1.PodSpec) {
		s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	}},
	"a folder of the host": {"hostPath volumes", func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	}},
	"the network of the host": {"host namespaces", func(s *corev1.PodSpec) { s.HostNetwork = true }},
	"a node":                  {"spec.template.spec.nodeName", func(s *corev1.PodSpec) { s.NodeName = "node-1" }},
	"nodes of a pool":         {"spec.template.spec.nodeSelector[pool]", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pool": "finance"} }},
	"a port of the node": {"spec.template.spec.containers[0].ports[0].hostPort", func(s *corev1.PodSpec) {
		s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 10250}}
	}},
	"a volume by an ephemeral claim": {"ephemeral.volumeClaimTemplate.spec.volumeName", func(s *corev1.PodSpec) {
		claim := corev1.PersistentVolumeClaimSpec{VolumeName: "theirs", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
		s.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim}}}}}
	}},
}

func testPermits(t *testing.T) {
	ctx := newCluster(t, "permits")
	register(t, "strict", map[string]string{"permits": "little"}, ownTaint)
	beat(t, "strict")
	policy(t, "permits", func(s *placementv1alpha1.PolicySpec) {
		s.Terms = only("permits", "little")
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
	})
	namespace(t, ctx, "web")
	deployments := shared.Kube.AppsV1().Deployments("web")
	refuseHostile := func(when string) {
		for name, h := range hostile {
			d := deployment("hostile")
			h.change(&d.Spec.Template.Spec)
			_, err := deployments.Create(ctx, d, metav1.CreateOptions{})
			forbidden(t, name+" "+when, err, h.field)
		}
	}
	refuseHostile("before anything is placed")
	if _, err := shared.Atoll.PlacementV1alpha1().Placements("web").Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refusal left a placement: %v", err)
	}
	if got := targetsOf(create(t, ctx, "web", deployment("plain"))); got != "strict" {
		t.Fatalf("targets %q", got)
	}
	refuseHostile("where all is placed")
	_, err := shared.Kube.CoreV1().Services("web").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.1"}}}, metav1.CreateOptions{})
	forbidden(t, "an address", err, "spec.externalIPs")
	_, err = shared.Kube.CoreV1().Services("web").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "kubernetes.default.svc.cluster.local"}}, metav1.CreateOptions{})
	forbidden(t, "a Service of another namespace", err, "spec.externalName")
	testPermitsWarn(t, ctx)
	testPermitsRatchet(t, ctx)
	testPermitsRuntimeClasses(t, ctx)
	testAskedNodePorts(t, ctx)
}

// testAskedNodePorts: which ports a user asks for is known through each way of writing a Service.
func testAskedNodePorts(t *testing.T, ctx context.Context) {
	services := shared.Kube.CoreV1().Services("web")
	step := func(what string, s *corev1.Service, err error, want string) int32 {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := s.Annotations[placementv1alpha1.NodePortsAnnotation]; got != want || s.Spec.Ports[0].NodePort == 0 {
			t.Errorf("%s: asked for is %q, want %q; the port is %d", what, got, want, s.Spec.Ports[0].NodePort)
		}
		return s.Spec.Ports[0].NodePort
	}
	service := func(name string, port int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}}}
	}
	update := func(name string) (*corev1.Service, error) { // as kubectl edit does, with all that is there
		s, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		s.Labels = map[string]string{"edited": "true"}
		delete(s.Annotations, placementv1alpha1.NodePortsAnnotation)
		return services.Update(ctx, s, metav1.UpdateOptions{})
	}
	apply := func(name, port string) (*corev1.Service, error) {
		patch := "{apiVersion: v1, kind: Service, metadata: {name: " + name + "}, spec: {type: NodePort, ports: [{port: 80, protocol: TCP" + port + "}]}}"
		return services.Patch(ctx, name, types.ApplyPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "deployer", Force: ptr.To(true)})
	}
	s, err := services.Create(ctx, service("chosen", 0), metav1.CreateOptions{})
	port := step("made without", s, err, "")
	s, err = update("chosen")
	step("sent back with what the server chose", s, err, "")
	s, err = apply("chosen", fmt.Sprintf(", nodePort: %d", port))
	step("applied with it", s, err, fmt.Sprint(port))
	s, err = update("chosen")
	step("and sent back", s, err, fmt.Sprint(port))
	s, err = apply("chosen", "")
	if kept := step("applied without", s, err, ""); kept != port {
		t.Errorf("the server keeps %d, not %d", kept, port)
	}
	s, err = services.Create(ctx, service("asked", 30124), metav1.CreateOptions{})
	step("made with a port", s, err, "30124")
	s, err = update("asked")
	step("and sent back, without the note", s, err, "30124")
	s, err = services.Patch(ctx, "asked", types.StrategicMergePatchType, []byte(`{"spec":{"ports":[{"port":80,"nodePort":null}]}}`), metav1.PatchOptions{})
	if kept := step("taken off, as kubectl apply does", s, err, ""); kept != 30124 {
		t.Errorf("the server keeps %d", kept)
	}
}

// testPermitsRuntimeClasses: a name that the logical cluster does not have is one of the physical cluster. Of a class that it
// has, its handler counts, for which the answer warns where no class is offered.
func testPermitsRuntimeClasses(t *testing.T, ctx context.Context) {
	const field = "spec.template.spec.runtimeClassName"
	clusters := shared.Atoll.FleetV1alpha1().PhysicalClusters()
	server.Eventually(t, waitTimeout, "permitting", func() error {
		pc, err := clusters.Get(root(t), "strict", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pc.Spec.Tenancy = fleetv1alpha1.Tenancy{RuntimeClasses: []string{"named"}}
		_, err = clusters.Update(root(t), pc, metav1.UpdateOptions{})
		return err
	})
	report(t, "strict", func(s *fleetv1alpha1.PhysicalClusterStatus) {
		s.RuntimeHandlers = &fleetv1alpha1.ReportedNames{Names: []string{"offered"}}
	})
	for name, handler := range map[string]string{"mine": "offered", "theirs": "kept-by-the-admin"} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
		if _, err := shared.Kube.NodeV1().RuntimeClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	server.Eventually(t, waitTimeout, "the permit is known", func() error {
		d := deployment("unnamed")
		d.Spec.Template.Spec.RuntimeClassName = ptr.To("unnamed")
		_, err := shared.Kube.AppsV1().Deployments("web").Create(ctx, d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), field+": ") {
			return fmt.Errorf("a class that is not named: %w", err)
		}
		return nil
	})
	for class, warns := range map[string]bool{"named": false, "mine": false, "theirs": true} {
		client, warned := warningClient(t)
		d := deployment("of-" + class)
		d.Spec.Template.Spec.RuntimeClassName = &class
		if _, err := client.AppsV1().Deployments("web").Create(ctx, d, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: %v", class, err)
		}
		if strings.Contains(warned.text(), field+": ") != warns {
			t.Errorf("%s: the answer warns %q", class, warned.text())
		}
	}
	// What is there is asked only for what is new.
	client, warned := warningClient(t)
	for _, class := range []string{"mine", "theirs"} {
		d, err := client.AppsV1().Deployments("web").Get(ctx, "of-mine", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d.Spec.Template.Spec.RuntimeClassName = &class
		if _, err := client.AppsV1().Deployments("web").Update(ctx, d, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(warned.text(), field+": ") != (class == "theirs") {
			t.Errorf("an update that names %s: the answer warns %q", class, warned.text())
		}
	}
}

// testPermitsWarn: what does not go down as it is is said in the answer.
func testPermitsWarn(t *testing.T, ctx context.Context) {
	client, warned := warningClient(t)
	d := deployment("eager")
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	d.Spec.Template.Spec.PriorityClassName = "system-node-critical"
	d.Spec.Template.Spec.ServiceAccountName = "nobody"
	if _, err := client.AppsV1().Deployments("web").Create(ctx, d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"nginx.ingress.kubernetes.io/server-snippet": "x"}},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}}}}
	if _, err := client.NetworkingV1().Ingresses("web").Create(ctx, ingress, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30123}}}}
	if _, err := client.CoreV1().Services("web").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"spec.template.spec.tolerations[0]: ", "spec.template.spec.priorityClassName: ",
		"metadata.annotations[nginx.ingress.kubernetes.io/server-snippet]: ", "spec.ports[0].nodePort: ", "there is no service account nobody"} {
		if !strings.Contains(warned.text(), want) {
			t.Errorf("no warning begins with %q: %s", want, warned.text())
		}
	}
	// The server itself puts the volume of a token into a pod, of which nobody has to hear; of one that a user calls so, he does.
	const token = "kube-api-access-"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Spec: deployment("x").Spec.Template.Spec}
	plain, err := client.CoreV1().Pods("web").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if volumes := plain.Spec.Volumes; len(volumes) != 1 || !strings.HasPrefix(volumes[0].Name, token) || strings.Contains(warned.text(), token) {
		t.Errorf("the server puts in %+v, and warns %s", volumes, warned.text())
	}
	pod.Name = "own"
	pod.Spec.Volumes = []corev1.Volume{{Name: token + "mine", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "vault"}}}}}}}
	if _, err := client.CoreV1().Pods("web").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(warned.text(), "spec.volumes[0]: ") {
		t.Errorf("a volume of a user goes without a word: %s", warned.text())
	}
}

// testPermitsRatchet: what was there before a permit was taken back can be changed
// elsewhere, and go.
func testPermitsRatchet(t *testing.T, ctx context.Context) {
	permit := func(labels ...string) {
		clusters := shared.Atoll.FleetV1alpha1().PhysicalClusters()
		server.Eventually(t, waitTimeout, "permitting", func() error {
			pc, err := clusters.Get(root(t), "strict", metav1.GetOptions{})
			if err != nil {
				return err
			}
			pc.Spec.Tenancy = fleetv1alpha1.Tenancy{NodeLabels: labels}
			_, err = clusters.Update(root(t), pc, metav1.UpdateOptions{})
			return err
		})
	}
	deployments := shared.Kube.AppsV1().Deployments("web")
	pooled := func() error {
		d := deployment("pooled")
		d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "a"}
		d.Finalizers = []string{"example.com/f"}
		_, err := deployments.Create(ctx, d, metav1.CreateOptions{})
		return err
	}
	permit("pool")
	server.Eventually(t, waitTimeout, "what is permitted is taken", pooled)
	permit()
	server.Eventually(t, waitTimeout, "what is permitted no more is refused", func() error {
		d := deployment("later")
		d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "a"}
		_, err := deployments.Create(ctx, d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return expect("refused", true, apierrors.IsForbidden(err))
	})
	patch := func(body string) error {
		_, err := deployments.Patch(ctx, "pooled", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":3}}`); err != nil {
		t.Errorf("a change elsewhere: %v", err)
	}
	forbidden(t, "one more label", patch(`{"spec":{"template":{"spec":{"nodeSelector":{"team":"x"}}}}}`), "nodeSelector[team]")
	if err := deployments.Delete(ctx, "pooled", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting: %v", err)
	}
	if err := patch(`{"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("removing a finalizer: %v", err)
	}
}
