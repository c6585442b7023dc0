package stamp

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Placeable reports whether objects of a namespace may be placed: not in "root".
// The namespace kube-system is as good as any: what a physical cluster runs in
// its own is out of sight.
func Placeable(cluster logicalcluster.Name, namespace string) bool {
	return cluster != scope.Root && namespace != ""
}

// Cluster writes the annotation of the logical cluster.
func Cluster(obj metav1.Object, cluster logicalcluster.Name) {
	annotate(obj, logicalcluster.AnnotationKey, cluster.String())
}

// HasTargets reports whether an object is stamped.
func HasTargets(obj metav1.Object) bool {
	return obj.GetAnnotations()[placementv1alpha1.TargetsAnnotation] != ""
}

// Targets stamps an object: a copy on each of the physical clusters.
func Targets(obj metav1.Object, clusters []string) {
	annotate(obj, placementv1alpha1.TargetsAnnotation, TargetsOn(clusters).String())
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

// Observed stamps an object that was brought up from a physical cluster, where
// it has the given UID.
func Observed(obj metav1.Object, target string, uid types.UID) {
	annotate(obj, placementv1alpha1.TargetsAnnotation, placementv1alpha1.Targets{
		target: {State: placementv1alpha1.TargetObserved, UID: uid},
	}.String())
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
