package simulation

import (
	"strconv"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// Resources of the worlds.
var (
	namespaces  = kube.Namespaces
	configMaps  = workload.ConfigMaps
	services    = schema.GroupResource{Resource: "services"}
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	replicaSets = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	jobs        = schema.GroupResource{Group: "batch", Resource: "jobs"}
	pods        = schema.GroupResource{Resource: "pods"}
	nodes       = schema.GroupResource{Resource: "nodes"}
	quotas      = schema.GroupResource{Resource: "resourcequotas"}
	netPolicies = schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"}
	claims      = schema.GroupResource{Resource: "persistentvolumeclaims"}

	statefulSets = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	ingresses    = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}

	copies            = placementv1alpha1.Resource("copies")
	placements        = placementv1alpha1.Resource("placements")
	physicalClusters  = fleetv1alpha1.Resource("physicalclusters")
	policies          = placementv1alpha1.Resource("clusterplacementpolicies")
	namespacePolicies = placementv1alpha1.Resource("placementpolicies")
	logicalClusters   = tenancyv1alpha1.Resource("logicalclusters")
	orphans           = fleetv1alpha1.Resource("orphans")
	runtimeClasses    = schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	leases            = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
)

// copied are the resources that have copies, observed those that are mirrored; common is
// the content that scripts mostly are about.
var (
	copied   = []schema.GroupResource{namespaces, configMaps, services, deployments, replicaSets, jobs, pods, quotas, netPolicies, claims, manifests, statefulSets, ingresses, autoscalers, cronJobs, budgets}
	observed = []schema.GroupResource{replicaSets, jobs, pods, claims}
	content  = copied[1:]
	common   = content[:6]
)

// kinds are those that there are.
var kinds = workload.Builtin()

func kindOf(gr schema.GroupResource) workload.Kind {
	k, ok := kinds.ByResource(gr)
	if !ok {
		panic("no kind for " + gr.String())
	}
	return k
}

// Who writes. Users and the people below have names of their own.
const system = "system"

func syncerOf(target string) string { return "syncer of " + target }

func isSyncer(by string) bool { return strings.HasPrefix(by, "syncer of ") }

// newObject is an object of a kind with nothing but a name.
func newObject(gr schema.GroupResource, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kindOf(gr).GroupVersionKind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// in puts an object into a logical cluster.
func in(cluster logicalcluster.Name, u *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[logicalcluster.AnnotationKey] = cluster.String()
	u.SetAnnotations(annotations)
	return u
}

// example is an object as a user writes it; n makes variants.
func example(gr schema.GroupResource, namespace, name string, n int) *unstructured.Unstructured {
	u := newObject(gr, namespace, name)
	vary(gr, u, n)
	return u
}

// vary makes an object the variant n.
func vary(gr schema.GroupResource, u *unstructured.Unstructured, n int) {
	set := func(value any, path ...string) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
	version := "v" + string(rune('a'+n%5))
	switch gr {
	case configMaps:
		set(version, "data", "version")
	case services:
		set(map[string]any{"version": version}, "spec", "selector")
	case deployments:
		set(int64(n%3), "spec", "replicas")
		set(map[string]any{"app": u.GetName()}, "spec", "selector", "matchLabels")
		set(template(u.GetName(), version, n), "spec", "template")
	case replicaSets:
		set(int64(n%3), "spec", "replicas")
		set(map[string]any{"app": u.GetName()}, "spec", "selector", "matchLabels")
		set(map[string]any{"app": u.GetName()}, "metadata", "labels")
		if u.GetUID() == "" {
			set(template(u.GetName(), version, n), "spec", "template")
		}
	case claims:
		v := claimVariants[n%len(claimVariants)]
		set(v.class, "spec", "storageClassName")
		set([]any{v.mode}, "spec", "accessModes")
		set("1Gi", "spec", "resources", "requests", "storage")
	case statefulSets:
		varySet(u, version, n)
	case quotas:
		set(strconv.Itoa(10+n%3), "spec", "hard", "pods")
	case netPolicies:
		set(map[string]any{"matchLabels": map[string]any{"app": u.GetName()}}, "spec", "podSelector")
		set([]any{[]any{"Ingress"}, []any{"Egress"}}[n%2], "spec", "policyTypes")
	case jobs:
		set(template(u.GetName(), version, n), "spec", "template")
		set(int64(n), "spec", "ttlSecondsAfterFinished") // stays above
	case pods:
		set(template(u.GetName(), version, 0)["spec"], "spec")
		if n%2 == 0 {
			set("Never", "spec", "restartPolicy")
		}
		if n%3 == 0 {
			set(map[string]any{"app": u.GetName()}, "metadata", "labels")
		}
	}
}

// template of pods; some refer to the ConfigMap "a" or "b".
func template(name, version string, n int) map[string]any {
	spec := map[string]any{"containers": []any{map[string]any{"name": "main", "image": version}}}
	if n%4 < 2 {
		spec["volumes"] = []any{map[string]any{
			"name": "config", "configMap": map[string]any{"name": string(rune('a' + n%2))},
		}}
	}
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": name}}, "spec": spec}
}

// text and number read fields of objects.
func text(obj kube.Object, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, path...)
	return s
}

func number(obj kube.Object, path ...string) int64 {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.(*unstructured.Unstructured).Object, path...)
	n, _ := v.(int64)
	return n
}

func part(obj kube.Object, path ...string) map[string]any {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.(*unstructured.Unstructured).Object, path...)
	m, _ := v.(map[string]any)
	return m
}

func stringsIn(obj kube.Object, path ...string) []string {
	s, _, _ := unstructured.NestedStringSlice(obj.(*unstructured.Unstructured).Object, path...)
	return s
}

func cast(obj kube.Object) *unstructured.Unstructured {
	if obj == nil {
		return nil
	}
	return obj.(*unstructured.Unstructured)
}

// changed is a copy of an object that may be changed.
func changed(obj kube.Object) *unstructured.Unstructured {
	return obj.(*unstructured.Unstructured).DeepCopy()
}

// resourceOf is the resource of an object, clusterOf its logical cluster.
func resourceOf(u *unstructured.Unstructured) schema.GroupResource {
	k, ok := kinds.ByKind(u.GroupVersionKind().GroupKind())
	if !ok {
		panic("no kind " + u.GetKind())
	}
	return k.GroupResource()
}

// keyOfMark is the logical object that a mark names.
func keyOfMark(gr schema.GroupResource, m syncer.Mark) kube.Key {
	k := kube.Key{Resource: gr, Cluster: m.Cluster, Namespace: m.Namespace, Name: m.Name}
	if gr == namespaces {
		k.Namespace = ""
	}
	return k
}

// objectOf is the key of the object of a Copy.
func objectOf(c *placementv1alpha1.Copy) kube.Key {
	o := c.Spec.Object
	k := kube.Key{
		Resource: schema.GroupResource{Group: o.Group, Resource: o.Resource},
		Cluster:  logicalcluster.From(c), Namespace: c.Namespace, Name: o.Name,
	}
	if k.Resource == namespaces {
		k.Namespace = ""
	}
	return k
}

// namespaceOf is the key of the Namespace that an object is in, or is.
func namespaceOf(k kube.Key) kube.Key {
	name := k.Namespace
	if k.Resource == namespaces {
		name = k.Name
	}
	return kube.Key{Resource: namespaces, Cluster: k.Cluster, Name: name}
}

func targetsText(obj kube.Object) string {
	if obj == nil {
		return ""
	}
	return obj.GetAnnotations()[placementv1alpha1.TargetsAnnotation]
}

func targetsOf(obj metav1.Object) placementv1alpha1.Targets {
	return stamp.TargetsOf(obj.GetAnnotations())
}

// labelled is the label selector of the watches below.
func labelled(obj kube.Object) bool {
	return obj.GetLabels()[placementv1alpha1.ManagedByLabel] == controlPlane
}

// describe is an object in transcripts.
func describe(obj kube.Object) string {
	if obj == nil {
		return "gone"
	}
	line := string(obj.GetUID()) + " at " + obj.GetResourceVersion()
	if c, ok := obj.(*placementv1alpha1.Copy); ok {
		return line + " " + string(c.Status.State) + " " + c.Status.Reason + " of " + string(c.Spec.Object.UID)
	}
	if t := targetsText(obj); t != "" {
		line += " " + t
	}
	if obj.GetDeletionTimestamp() != nil {
		line += " deleting"
	}
	if g := obj.GetGeneration(); g > 0 {
		line += " generation " + strconv.FormatInt(g, 10)
	}
	return line
}
