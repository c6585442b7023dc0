package stamp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// maxNamespace is the length of a DNS label, which the name of a namespace is.
const maxNamespace = 63

// NamePhysicalNamespace records on a Namespace that has targets the name of its
// physical namespace, once: a recorded one stays.
func NamePhysicalNamespace(namespace metav1.Object, controlPlane string, cluster logicalcluster.Name) {
	if !HasTargets(namespace) || !LacksName(namespace, cluster) {
		return
	}
	annotate(namespace, placementv1alpha1.PhysicalNamespaceAnnotation,
		PhysicalNamespace(controlPlane, cluster, namespace.GetName(), namespace.GetUID()))
}

// LacksName says that the name of its physical namespace has yet to be recorded on a Namespace. Those of
// root have none: what is in them says itself where it goes.
func LacksName(namespace metav1.Object, cluster logicalcluster.Name) bool {
	return cluster != scope.Root && namespace.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation] == ""
}

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
