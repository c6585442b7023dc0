package stamp

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Placeable reports whether objects of a namespace may be placed: not in "root".
// The namespace kube-system is as good as any: what a physical cluster runs in
// its own is out of sight.
func Placeable(cluster logicalcluster.Name, namespace string) bool {
	return cluster != scope.Root && namespace != ""
}

// OfServer reports whether an object is the Service "kubernetes", by which
// clients in a cluster find its API server. Each logical cluster has one that
// stands for this server; a physical cluster has its own, so it is not placed.
func OfServer(resource schema.GroupResource, namespace, name string) bool {
	return resource == schema.GroupResource{Resource: "services"} && namespace == metav1.NamespaceDefault && name == "kubernetes"
}

// Cluster writes the annotation of the logical cluster.
func Cluster(obj metav1.Object, cluster logicalcluster.Name) {
	annotate(obj, logicalcluster.AnnotationKey, cluster.String())
}

// Targets stamps an object: a copy on each of the physical clusters.
func Targets(obj metav1.Object, clusters []string) {
	annotate(obj, placementv1alpha1.TargetsAnnotation, TargetsOn(clusters).String())
	keep(obj)
}

// keep adds our finalizer.
func keep(obj metav1.Object) {
	if !slices.Contains(obj.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
		obj.SetFinalizers(append(slices.Clone(obj.GetFinalizers()), placementv1alpha1.CopiesFinalizer))
	}
}

// TargetsOn are targets that keep a copy on each of the physical clusters.
func TargetsOn(clusters []string) placementv1alpha1.Targets {
	targets := placementv1alpha1.Targets{}
	for _, name := range clusters {
		targets[name] = placementv1alpha1.Target{}
	}
	return targets
}

// Observed stamps an object of a resource that was brought up from a physical
// cluster, where it has the given UID. If its deletion is to be carried out there,
// the finalizer keeps it until that is done. Pods need none: with a node, they wait
// to be stopped. What controllers below make again at once needs none either.
func Observed(resource schema.GroupResource, obj metav1.Object, target string, uid types.UID) {
	if kind, ok := workload.ByResource(resource); ok && kind.Observed && kind.Kind != "Pod" {
		keep(obj)
	}
	annotate(obj, placementv1alpha1.TargetsAnnotation, placementv1alpha1.Targets{
		target: {State: placementv1alpha1.TargetObserved, UID: uid},
	}.String())
}

// RuntimeHandler notes the handler of the RuntimeClass that an object names; none
// takes the note off.
func RuntimeHandler(obj metav1.Object, handler string) {
	if handler != "" {
		annotate(obj, placementv1alpha1.RuntimeHandlerAnnotation, handler)
		return
	}
	if _, ok := obj.GetAnnotations()[placementv1alpha1.RuntimeHandlerAnnotation]; ok {
		annotations := maps.Clone(obj.GetAnnotations())
		delete(annotations, placementv1alpha1.RuntimeHandlerAnnotation)
		obj.SetAnnotations(annotations)
	}
}

// maxNamespace is the length of a DNS label, which the name of a namespace is.
const maxNamespace = 63

// PhysicalNamespace is the name of the namespace that holds the copies of a
// logical namespace on every target: readable, and unique to the namespace of
// that UID in that control plane. It is computed once and recorded.
func PhysicalNamespace(controlPlane string, cluster logicalcluster.Name, namespace string, uid types.UID) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{controlPlane, cluster.String(), namespace, string(uid)}, "\x00")))
	suffix := "-" + hex.EncodeToString(sum[:4])
	readable := cluster.String() + "-" + namespace
	if limit := maxNamespace - len(suffix); len(readable) > limit {
		readable = strings.TrimRight(readable[:limit], "-")
	}
	return readable + suffix
}

// annotate sets one annotation in a copy of the map: objects in admission may
// share theirs.
func annotate(obj metav1.Object, key, value string) {
	if current, ok := obj.GetAnnotations()[key]; ok && current == value {
		return
	}
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
