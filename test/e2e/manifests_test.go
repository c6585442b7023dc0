package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// manifestOf carries one object, which is YAML in flow style.
func manifestOf(name, object string, more ...string) string {
	return fmt.Sprintf("apiVersion: fleet.atoll.dev/v1alpha1\nkind: Manifest\nmetadata: {name: %s}\nspec:\n  object: %s\n%s---\n", name, object, strings.Join(more, ""))
}

// addonOf are the Manifests of an addon, what needs others first.
func addonOf(name string) string {
	group := name + ".example.com"
	schema := `{type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}`
	return manifestOf("gadget", fmt.Sprintf("{apiVersion: %s/v1, kind: Gadget, metadata: {name: %s, namespace: %s}, spec: {size: 1}}", group, name, name)) +
		manifestOf("operator", fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: operator, namespace: %s, labels: {app: operator}},
    spec: {replicas: 2, selector: {matchLabels: {app: operator}}, template: {metadata: {labels: {app: operator}}, spec: {hostNetwork: true, serviceAccountName: operator,
    containers: [{name: operator, image: operator, securityContext: {privileged: true}}]}}}}`, name)) +
		manifestOf("account", fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: operator, namespace: %s}}", name)) +
		manifestOf("role", fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}, rules: [{apiGroups: [%s], resources: ['*'], verbs: ['*']}]}", name, group)) +
		manifestOf("binding", fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s},
    subjects: [{kind: ServiceAccount, name: operator, namespace: %s}]}`, name, name, name)) +
		manifestOf("class", fmt.Sprintf("{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s}, provisioner: %s, reclaimPolicy: Retain}", name, group)) +
		manifestOf("namespace", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)) +
		manifestOf("kind", fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.%s}, spec: {group: %s, scope: Namespaced,
    names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: %s}}]}}`, group, group, schema))
}

// isThere says that an object is on a physical cluster.
func isThere(k process.Kubectl, obj any, resource, name string) error {
	ok, err := k.Get(context.Background(), obj, resource, name)
	if err == nil && !ok {
		err = fmt.Errorf("there is no %s %s", resource, name)
	}
	return err
}

// absent says that it is not.
func absent(k process.Kubectl, obj any, resource, name string) error {
	ok, err := k.Get(context.Background(), obj, resource, name)
	if err == nil && ok {
		err = fmt.Errorf("%s %s is there", resource, name)
	}
	return err
}

func TestWhatAManifestCarriesIsOnEveryPhysicalClusterAsItIs(t *testing.T) {
	t.Parallel()
	ctx, name := context.Background(), "addon"
	root := theLab.root
	must(t)(root.Run(ctx, "create", "namespace", name))
	in := root.In(name)
	must(t)(in.Apply(ctx, addonOf(name)))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifests", "--all", "--timeout=2m"))
	must(t)(in.Run(ctx, "wait", "--for=condition=Established", "manifest/kind", "--timeout=1m"))
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		below := p.Kubectl
		var deployment appsv1.Deployment
		must(t)("", isThere(below.In(name), &deployment, "deployment", "operator"))
		pod := deployment.Spec.Template.Spec
		if !pod.HostNetwork || pod.ServiceAccountName != "operator" || len(pod.Volumes) > 0 || pod.AutomountServiceAccountToken != nil || *deployment.Spec.Replicas != 2 {
			t.Errorf("%s: the operator is not as it is written: %+v", p.name, pod)
		}
		must(t)("", isThere(below, &rbacv1.ClusterRole{}, "clusterrole", name))
		must(t)("", isThere(below, &rbacv1.ClusterRoleBinding{}, "clusterrolebinding", name))
		must(t)("", isThere(below, &storagev1.StorageClass{}, "storageclass", name))
		must(t)("", isThere(below, &apiextensionsv1.CustomResourceDefinition{}, "crd", "gadgets."+name+".example.com"))
		must(t)("", isThere(below.In(name), &corev1.ServiceAccount{}, "serviceaccount", "operator"))
		if gadget, err := custom(below.In(name), "gadgets."+name+".example.com", name); err != nil || textOf(gadget, "spec", "size") != "1" {
			t.Errorf("%s: gadget %v, %v", p.name, gadget, err)
		}
		if out, err := below.Run(ctx, "get", "namespaces", "-o", "name"); err != nil || strings.Contains(out, "root-") {
			t.Errorf("%s: a namespace of root has a physical one: %s %v", p.name, out, err)
		}
	}

	// What somebody changes there is put back, and what goes is made again.
	east := theLab.east.Kubectl
	must(t)(east.Run(ctx, "patch", "clusterrole", name, "--type=json", "-p", `[{"op":"replace","path":"/rules/0/verbs","value":["get"]}]`))
	must(t)(east.Run(ctx, "delete", "storageclass", name))
	eventually(t, func() error {
		var role rbacv1.ClusterRole
		if err := isThere(east, &role, "clusterrole", name); err != nil {
			return err
		}
		if len(role.Rules) != 1 || len(role.Rules[0].Verbs) != 1 || role.Rules[0].Verbs[0] != "*" {
			return fmt.Errorf("the role is not put back: %v", role.Rules)
		}
		return isThere(east, &storagev1.StorageClass{}, "storageclass", name)
	})

	// A change reaches all.
	must(t)(in.Run(ctx, "patch", "manifest", "operator", "--type=merge", "-p", `{"spec":{"object":{"spec":{"replicas":3}}}}`))
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		eventually(t, func() error {
			var deployment appsv1.Deployment
			if err := isThere(p.Kubectl.In(name), &deployment, "deployment", "operator"); err != nil {
				return err
			}
			if *deployment.Spec.Replicas != 3 {
				return fmt.Errorf("%s: %d replicas", p.name, *deployment.Spec.Replicas)
			}
			return nil
		})
	}

	// What goes above goes there; what holds things of others stays, without our marks.
	must(t)(in.Run(ctx, "delete", "manifests", "--all", "--timeout=1m"))
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		below := p.Kubectl
		must(t)("", absent(below, &rbacv1.ClusterRole{}, "clusterrole", name))
		must(t)("", absent(below, &storagev1.StorageClass{}, "storageclass", name))
		must(t)("", absent(below.In(name), &appsv1.Deployment{}, "deployment", "operator"))
		for resource, obj := range map[string]metav1.Object{"namespace/" + name: &corev1.Namespace{}, "crd/gadgets." + name + ".example.com": &apiextensionsv1.CustomResourceDefinition{}} {
			kind, of, _ := strings.Cut(resource, "/")
			must(t)("", isThere(below, obj, kind, of))
			for key := range obj.GetAnnotations() {
				if strings.Contains(key, "atoll.dev") {
					t.Errorf("%s: %s has the annotation %s", p.name, resource, key)
				}
			}
			for key := range obj.GetLabels() {
				if strings.Contains(key, "atoll.dev") {
					t.Errorf("%s: %s has the label %s", p.name, resource, key)
				}
			}
		}
		must(t)(below.Run(ctx, "delete", "namespace", name, "--wait=false"))
		must(t)(below.Run(ctx, "delete", "crd", "gadgets."+name+".example.com"))
	}
	must(t)(root.Run(ctx, "delete", "namespace", name, "--timeout=1m"))
}
