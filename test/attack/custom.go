package attack

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload/declared"
)

var (
	declaredKinds = sendsDown("no custom resource of a declared kind gives a tenant of a physical cluster what is not its own, whatever its schema lets through",
		hostileMachines, made, (*site).declare)
	declaredLater = sendsDown("no custom resource of a declared kind is made to want of a physical cluster what is not the tenant's",
		hostileMachines, changed, (*site).declare)
)

// machines declares a kind with pod templates at two paths, whose definitions know no field of
// them: what is there, only the table says.
func machines() *fleetv1alpha1.PlacedKind {
	return &fleetv1alpha1.PlacedKind{
		ObjectMeta: metav1.ObjectMeta{Name: "machines.attack.example.com"},
		Spec: fleetv1alpha1.PlacedKindSpec{
			Version: "v1", Kind: "Machine", LogicalClusters: &metav1.LabelSelector{},
			PodTemplates: []string{"spec.template", "spec.groups.*.template"},
			Status:       fleetv1alpha1.PlacedKindStatusRules{Source: fleetv1alpha1.StatusOfLogicalCluster},
		},
	}
}

// machineDefinition defines the kind, for a logical cluster and for a physical one.
func machineDefinition() *apiextensionsv1.CustomResourceDefinition {
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: machines().Name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: declared.ResourceOf(machines()).Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: declared.ResourceOf(machines()).Resource, Kind: machines().Spec.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: machines().Spec.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}},
			},
		},
	}
}

// declare has machines placed, and waits until one of them is on the physical cluster.
func (s *site) declare(ctx context.Context) error {
	for who, config := range map[string]*rest.Config{"the tenant": scope.ScopedConfig(s.who.config), "the admin of " + s.physical: s.Physical[s.physical]} {
		_, err := clientset.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions().Create(ctx, machineDefinition(), metav1.CreateOptions{})
		if ignoreExisting(err) != nil {
			return fmt.Errorf("defining machines as %s: %w", who, err)
		}
	}
	_, err := s.admin.atoll.FleetV1alpha1().PlacedKinds().Create(scope.WithCluster(ctx, scope.Root), machines(), metav1.CreateOptions{})
	if ignoreExisting(err) != nil {
		return fmt.Errorf("declaring machines: %w", err)
	}
	first := down{name: "first", manifest: harmless[machines().Spec.Kind]}
	if err := eventually(ctx, "machines are served", func() error { return s.create(ctx, first) }); err != nil {
		return err
	}
	return s.arrived(ctx, first, func(string) error { return nil })
}

// machineTemplates are machines with the lines of a spec at each of the two paths.
var machineTemplates = map[string]string{
	"machine":  "{apiVersion: attack.example.com/v1, kind: Machine, spec: {template: {metadata: {labels: {app: a}}, spec: {%s}}}}",
	"machines": "{apiVersion: attack.example.com/v1, kind: Machine, spec: {template: {spec: {" + plain + "}}, groups: [{template: {spec: {" + plain + "}}}, {template: {spec: {%s}}}]}}",
}

// looksLikeToken makes any item of a list look like the volume that pods have for their token.
const looksLikeToken = "name: kube-api-access-x, projected: {sources: []}"

// looseTemplates are what no schema of Kubernetes lets through.
var looseTemplates = []down{
	{"forged-container", "containers: [{" + looksLikeToken + ", image: nginx, securityContext: {privileged: true}}]", `"privileged":true`, "securityContext.privileged=true", false},
	{"forged-port", "containers: [{name: c, image: nginx, ports: [{" + looksLikeToken + ", containerPort: 80, hostPort: 10250}]}]", `"hostPort":10250`, "containers[0].ports[0].hostPort", false},
	{"forged-toleration", plain + ", tolerations: [{" + looksLikeToken + ", operator: Exists}]", `"tolerations":[`, "", false},
	{"forged-term", plain + ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{" + looksLikeToken + ", topologyKey: kubernetes.io/hostname, labelSelector: {}, namespaceSelector: {}}]}}",
		`"namespaceSelector":{}`, "", true},
	{"forged-volume", plain + ", volumes: [{" + looksLikeToken + ", nfs: {server: nfs.example.com, path: /}}]", `"nfs":`, "", true},
	{"forged-source", plain + ", volumes: [{name: v, projected: {sources: [{" + looksLikeToken + ", serviceAccountToken: {audience: cloud, path: t}}]}}]", `"serviceAccountToken":`, "", true},
	{"unreadable", "terminationGracePeriodSeconds: long, containers: [{name: c, image: nginx, securityContext: {privileged: true}}]", `"privileged":true`, "is no specification of pods", false},
	{"no-list", "containers: {name: c, image: nginx, ports: {containerPort: 80, hostPort: 10250}}", `"hostPort":10250`, "hostPort", false},
	{"unknown", plain + ", nodeToRunOn: node-1", `"nodeToRunOn":`, "", true},
}

// hostileMachines are what each of machineTemplates is sent down with.
func hostileMachines() []down {
	var all []down
	for kind, template := range machineTemplates {
		for _, hostile := range [][]down{hostilePods, looseTemplates} {
			for _, h := range hostile {
				h.name, h.manifest = kind+"-"+h.name, fmt.Sprintf(template, h.manifest)
				all = append(all, h)
			}
		}
	}
	return append(all, down{"no-template", "{apiVersion: attack.example.com/v1, kind: Machine, spec: {template: [{spec: {" + plain + ", nodeName: node-1}}]}}", `"nodeName":`, "is no pod template", true})
}
