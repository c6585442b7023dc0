package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
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

const onlyEastAndWest = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: here}
spec: {terms: [{matchExpressions: [{key: topology.kubernetes.io/region, operator: In, values: [east, west]}]}]}
`

// isThere says that an object is on a physical cluster.
func isThere(k process.Kubectl, obj any, resource, name string) error {
	ok, err := k.Get(context.Background(), obj, resource, name)
	if err == nil && !ok {
		err = fmt.Errorf("there is no %s %s", resource, name)
	}
	return err
}

// allApplied says that what all Manifests of a namespace carry is where it is to be, or which are not.
func allApplied(in process.Kubectl) func() error {
	return func() error {
		var list fleetv1alpha1.ManifestList
		if _, err := in.Get(context.Background(), &list, "manifests"); err != nil {
			return err
		}
		for _, m := range list.Items {
			if !slices.ContainsFunc(m.Status.Conditions, func(c fleetv1alpha1.ManifestCondition) bool {
				return c.Type == fleetv1alpha1.ConditionApplied && c.Status == metav1.ConditionTrue
			}) || m.Status.ObservedGeneration != m.Generation {
				return fmt.Errorf("%s for %s: %+v", m.Name, m.Annotations[placementv1alpha1.TargetsAnnotation], m.Status)
			}
		}
		return nil
	}
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
	must(t)(in.Apply(ctx, onlyEastAndWest)) // others come and go with other tests
	must(t)(in.Apply(ctx, addonOf(name)))
	eventually(t, allApplied(in))
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

// Of what is in the way below nothing is taken that the admin did not say, nor by another Manifest.
func TestAManifestTakesOverWhatIsThereOnlyIfItSaysSo(t *testing.T) {
	t.Parallel()
	ctx, name := context.Background(), "adopted"
	root, east := theLab.root, theLab.east.Kubectl
	must(t)(root.Run(ctx, "create", "namespace", name))
	in := root.In(name)
	must(t)(in.Apply(ctx, onlyEastAndWest))
	role := func(verb string) string {
		return "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: adopted}, rules: [{apiGroups: [''], resources: [pods], verbs: [" + verb + "]}]}"
	}
	must(t)(east.Apply(ctx, role("list")))
	must(t)(in.Apply(ctx, manifestOf("first", role("get"))))
	verbs := func(want string) func() error {
		return func() error {
			var there rbacv1.ClusterRole
			if err := isThere(east, &there, "clusterrole", name); err != nil {
				return err
			}
			if got := strings.Join(there.Rules[0].Verbs, ","); got != want {
				return fmt.Errorf("the role has the verbs %s, want %s", got, want)
			}
			return nil
		}
	}
	applied := func(manifest, want string) func() error {
		return func() error {
			obj, err := custom(in, "manifest", manifest)
			if err != nil {
				return err
			}
			if got := textOf(obj, "status", "conditions"); !strings.Contains(got, want) {
				return fmt.Errorf("the conditions of %s are %s, want %s", manifest, got, want)
			}
			return nil
		}
	}
	eventually(t, applied("first", "NotOurs"))
	must(t)("", verbs("list")())

	must(t)(in.Run(ctx, "patch", "manifest", "first", "--type=merge", "-p", `{"spec":{"adopt":true}}`))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifest/first", "--timeout=1m"))
	must(t)("", verbs("get")())
	must(t)(in.Apply(ctx, manifestOf("second", role("watch"), "  adopt: true\n")))
	eventually(t, applied("second", "NotOurs"))
	must(t)("", verbs("get")())
	must(t)(in.Run(ctx, "delete", "manifest", "second", "--timeout=1m"))
	must(t)("", verbs("get")())

	// What was adopted was there before: it stays.
	must(t)(in.Run(ctx, "patch", "manifest", "first", "--type=merge", "-p", `{"spec":{"removal":"Keep"}}`))
	must(t)(in.Run(ctx, "delete", "manifest", "first", "--timeout=1m"))
	must(t)("", verbs("get")())
	must(t)(east.Run(ctx, "delete", "clusterrole", name))
	must(t)(theLab.west.Run(ctx, "delete", "clusterrole", name))
	must(t)(root.Run(ctx, "delete", "namespace", name, "--timeout=1m"))
}

func TestOnlyAdminsOfRootMakeManifests(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	_, err := k.Apply(ctx, manifestOf("mine", "{apiVersion: v1, kind: Namespace, metadata: {name: mine}}"))
	if err == nil || !strings.Contains(err.Error(), `exist in the logical cluster "root" only`) {
		t.Errorf("a tenant makes a Manifest: %v", err)
	}
	for problem, manifest := range map[string]string{
		"spec.object.metadata.name":         manifestOf("bad", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default}}"),
		"spec.object.metadata.generateName": manifestOf("bad", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, generateName: x}}"),
		"make a Manifest for each item":     manifestOf("bad", "{apiVersion: v1, kind: List, items: [], metadata: {name: x}}"),
		"control plane itself":              manifestOf("bad", "{apiVersion: fleet.atoll.dev/v1alpha1, kind: Manifest, metadata: {name: x}}"),
		"must be one object of Kubernetes":  manifestOf("bad", "{metadata: {name: x}}"),
	} {
		if _, err := theLab.root.Apply(ctx, manifest); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("got %v, want %q", err, problem)
		}
	}
}

// An admin has the same on physical clusters that come; and it is there as long as anything that may
// need it.
func TestAPhysicalClusterThatComesGetsManifestsAndADrainedOneLosesThemLast(t *testing.T) {
	t.Parallel()
	ctx, l := context.Background(), newLab(t, "east")
	must(t)(l.root.Run(ctx, "create", "namespace", "addons"))
	in := l.root.In("addons")
	must(t)(in.Apply(ctx, manifestOf("class", "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: example.com/fast}")+
		manifestOf("settings", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: kube-system}, data: {a: b}}")))
	eventually(t, allApplied(in))
	south, err := l.startPhysical(ctx, "south")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t)("", south.Stop()) })
	must(t)("", l.register(ctx, "south", l.path("south", "admin.kubeconfig")))
	there := func(want bool) func() error {
		return func() error {
			var class storagev1.StorageClass
			var settings corev1.ConfigMap
			if want {
				return errors.Join(isThere(south.Kubectl, &class, "storageclass", "fast"), isThere(south.In("kube-system"), &settings, "configmap", "settings"))
			}
			return errors.Join(absent(south.Kubectl, &class, "storageclass", "fast"), absent(south.In("kube-system"), &settings, "configmap", "settings"))
		}
	}
	eventually(t, there(true))

	k := l.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: web, annotations: {placement.atoll.dev/cluster: south}}}"))
	must(t)(k.In("web").Apply(ctx, "{apiVersion: v1, kind: Pod, metadata: {name: only}, spec: {containers: [{name: c, image: c}]}}"))
	must(t)(k.In("web").Run(ctx, "wait", "--for=condition=Ready", "pod/only", "--timeout=2m"))
	must(t)(k.Run(ctx, "annotate", "namespace", "web", "placement.atoll.dev/cluster-"))
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/south", "--type=merge", "-p", `{"spec":{"drain":{"requested":true}}}`))
	drained := func(want string) func() error {
		return func() error {
			out, err := l.root.Run(ctx, "get", "physicalcluster", "south", "-o", `jsonpath={range .status.conditions[?(@.type=="Drained")]}{.status} {.reason}{end}`)
			if err == nil && out != want {
				err = fmt.Errorf("the drain is at %q, want %q", out, want)
			}
			return err
		}
	}
	eventually(t, func() error {
		out, err := l.root.In("addons").Run(ctx, "get", "placement", "namespace", "-o", `jsonpath={range .status.conditions[?(@.type=="Moving")]}{.status} {.reason}{end}`)
		if err == nil && out != "False LeavesLast" {
			err = fmt.Errorf("the unit of root is at %q", out)
		}
		return err
	})
	must(t)("", there(true)())
	must(t)(k.In("web").Run(ctx, "delete", "pod", "only", "--timeout=1m"))
	must(t)(k.Run(ctx, "delete", "namespace", "web", "--timeout=1m"))
	eventually(t, drained("True Drained"))
	must(t)("", there(false)())
	must(t)("", isThere(l.east.Kubectl, &storagev1.StorageClass{}, "storageclass", "fast"))
}

// A change reaches the waves of a policy one after the other, as that of an application does.
func TestAChangeOfAManifestReachesOneWaveAfterTheOther(t *testing.T) {
	t.Parallel()
	ctx, name := context.Background(), "staged"
	root := theLab.root
	must(t)(root.Run(ctx, "create", "namespace", name))
	in := root.In(name)
	must(t)(in.Apply(ctx, strings.TrimSuffix(strings.TrimSpace(onlyEastAndWest), "}")+`, rollout: {waves: [{term: {matchLabels: {topology.kubernetes.io/region: east}}}, {approval: Manual}]}}`))
	class := func(provisioner string) string {
		return manifestOf("role", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: staged}, rules: [{apiGroups: [''], resources: [pods], verbs: ["+provisioner+"]}]}")
	}
	must(t)(in.Apply(ctx, class("get")))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifest/role", "--timeout=2m"))
	eventually(t, func() error {
		out, err := in.Run(ctx, "get", "placement", "namespace", "-o", "jsonpath={.spec.decision.rollout}")
		if err == nil && out == "" {
			err = errors.New("the decision has no waves yet")
		}
		return err
	})
	verbs := func(p *physicalCluster, want string) func() error {
		return func() error {
			var role rbacv1.ClusterRole
			if err := isThere(p.Kubectl, &role, "clusterrole", name); err != nil {
				return err
			}
			if got := role.Rules[0].Verbs[0]; got != want {
				return fmt.Errorf("%s has %s, want %s", p.name, got, want)
			}
			return nil
		}
	}
	must(t)(in.Apply(ctx, class("list")))
	eventually(t, verbs(theLab.east, "list"))
	reason := `jsonpath={range .status.conditions[?(@.type=="RolledOut")]}{.reason}{end}`
	eventually(t, func() error {
		out, err := in.Run(ctx, "get", "placement", "namespace", "-o", reason)
		if err == nil && out != "NeedsApproval" {
			err = fmt.Errorf("the rollout is at %q", out)
		}
		return err
	})
	must(t)("", verbs(theLab.west, "get")())
	if obj, err := custom(in, "manifest", "role"); err != nil || !strings.Contains(textOf(obj, "status", "conditions"), "it has what was before") {
		t.Errorf("the status does not say that west has not got it: %v, %v", obj.Object["status"], err)
	}
	revision := must(t)(in.Run(ctx, "get", "placement", "namespace", "-o", "jsonpath={.status.rollout.revision}/{.status.rollout.wave}"))
	must(t)(root.Run(ctx, "annotate", "namespace", name, "placement.atoll.dev/approve-rollout="+strings.Split(revision, "/")[0]+"/2"))
	eventually(t, verbs(theLab.west, "list"))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifest/role", "--timeout=1m"))
	must(t)(root.Run(ctx, "delete", "namespace", name, "--timeout=1m"))
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		must(t)("", absent(p.Kubectl, &rbacv1.ClusterRole{}, "clusterrole", name))
	}
}

// carriedApps are applications of others that need rights over a whole cluster, as their authors publish
// them. None of them serves an API that the other tests use.
var carriedApps = []string{"bn-metallb", "bn-node-exporter", "bn-sealed-secrets", "postgres-operator"}

// namespacesIn are the namespaces of what Manifests carry, as far as these do not carry them, too, nor each
// physical cluster has them.
func namespacesIn(manifests string) []string {
	var out []string
	for _, found := range regexp.MustCompile(`(?m)^      namespace: (\S+)$`).FindAllStringSubmatch(manifests, -1) {
		if found[1] != "default" && !slices.Contains(out, found[1]) && !strings.Contains(manifests, "  name: namespace--"+found[1]+"\n") {
			out = append(out, found[1])
		}
	}
	return out
}

func TestOperatorsOfOthersAreCarriedAsTheyArePublished(t *testing.T) {
	long(t)
	if err := process.Missing("kubectl-atoll"); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(corpusDir()); err != nil {
		t.Skipf("no applications in %s: set ATOLL_CORPUS", corpusDir())
	}
	ctx, root := context.Background(), theLab.root
	for _, app := range carriedApps {
		t.Run(app, func(t *testing.T) {
			name := "carried-" + app
			must(t)(root.Run(ctx, "create", "namespace", name))
			in := root.In(name)
			must(t)(in.Apply(ctx, onlyEastAndWest))
			out, err := exec.CommandContext(ctx, process.Binary("kubectl-atoll"), "manifests", "-n", name, "-R", "-f", filepath.Join(corpusDir(), "corpus", app),
				"--object-namespace", name).Output()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "manifests.yaml")
			if err := os.WriteFile(file, out, 0o600); err != nil {
				t.Fatal(err)
			}
			must(t)(in.Run(ctx, "apply", "--server-side", "-f", file))
			namespaces := namespacesIn(string(out))
			for _, namespace := range namespaces { // as who installs them has made them
				must(t)(in.Apply(ctx, manifestOf("in-"+namespace, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}", "  removal: Delete\n")))
			}
			eventually(t, allApplied(in))
			must(t)(in.Run(ctx, "delete", "manifests", "--all", "--timeout=2m"))
			for _, p := range []*physicalCluster{theLab.east, theLab.west} {
				for _, namespace := range namespaces {
					must(t)("", absent(p.Kubectl, &corev1.Namespace{}, "namespace", namespace))
				}
				for _, found := range regexp.MustCompile(`(?m)^  name: customresourcedefinition\.apiextensions\.k8s\.io--(\S+)$`).FindAllStringSubmatch(string(out), -1) {
					must(t)("", isThere(p.Kubectl, &apiextensionsv1.CustomResourceDefinition{}, "crd", found[1])) // it is kept
					must(t)(p.Run(ctx, "delete", "crd", found[1], "--wait=false"))                                // see readKind
				}
			}
			must(t)(root.Run(ctx, "delete", "namespace", name, "--timeout=1m"))
		})
	}
}

// The definition of a declared kind comes to physical clusters by a Manifest, and what tenants made of
// the kind before goes there.
func TestADefinitionThatIsCarriedMakesRoomForADeclaredKind(t *testing.T) {
	t.Parallel()
	ctx, group := context.Background(), "carried.e2e.example.com"
	resource, root := "widgets."+group, theLab.root
	must(t)(root.Run(ctx, "create", "namespace", "definitions"))
	in := root.In("definitions")
	must(t)(in.Apply(ctx, onlyEastAndWest))
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, of(group, definition)))
	must(t)(k.Run(ctx, "wait", "--for=condition=Established", "--timeout=1m", "crd/"+resource))
	selectCluster(t, k, group)
	must(t)(root.Apply(ctx, of(group, declaration)))
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	must(t)(k.In("web").Apply(ctx, widgetOf(group, "gear")))
	if gear, err := custom(k.In("web"), resource, "gear"); err != nil || stamp.HasTargets(gear) {
		t.Fatalf("it is placed where its kind is not: %v, %v", gear, err)
	}

	indented := strings.ReplaceAll(strings.TrimSpace(of(group, definition)), "\n", "\n    ")
	must(t)(in.Apply(ctx, "apiVersion: fleet.atoll.dev/v1alpha1\nkind: Manifest\nmetadata: {name: widgets}\nspec:\n  removal: Delete\n  object:\n    "+indented+"\n"))
	must(t)(in.Run(ctx, "wait", "--for=condition=Established", "manifest/widgets", "--timeout=1m"))
	eventually(t, func() error {
		out, err := k.In("web").Run(ctx, "get", "copies", "-o", `jsonpath={range .items[?(@.spec.object.name=="gear")]}{.status.state}{end}`)
		if err == nil && out != "Synced" {
			err = fmt.Errorf("its copy is %q", out)
		}
		return err
	})

	must(t)(k.In("web").Run(ctx, "delete", resource, "gear", "--timeout=1m"))
	must(t)(root.Run(ctx, "delete", "placedkind", resource, "--timeout=1m"))
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		readKind(t, p.Kubectl, resource)
	}
	must(t)(in.Run(ctx, "delete", "manifest", "widgets", "--timeout=1m"))
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		must(t)("", absent(p.Kubectl, &apiextensionsv1.CustomResourceDefinition{}, "crd", resource))
	}
	must(t)(root.Run(ctx, "delete", "namespace", "definitions", "--timeout=1m"))
}
