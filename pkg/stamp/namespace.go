package stamp

import (
	"encoding/json"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// namespacePatch is a strategic merge patch of a Namespace: the UID makes it
// fail on another one of the same name, finalizers are merged.
type namespacePatch struct {
	Metadata namespaceMetadata `json:"metadata"`
}

type namespaceMetadata struct {
	UID         types.UID         `json:"uid"`
	Annotations map[string]string `json:"annotations"`
	Finalizers  []string          `json:"finalizers"`
}

// Rule returns the strategic merge patch that stamps what rules a namespace which is
// placed on clusters.
func Rule(uid types.UID, clusters []string) []byte {
	return encode(namespaceMetadata{
		UID:         uid,
		Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: TargetsOn(clusters).String()},
		Finalizers:  []string{placementv1alpha1.CopiesFinalizer},
	})
}

func encode(metadata namespaceMetadata) []byte {
	patch, err := json.Marshal(namespacePatch{Metadata: metadata})
	if err != nil {
		panic(err) // maps and lists of strings cannot fail to encode
	}
	return patch
}

// Namespace returns the strategic merge patch that stamps a Namespace whose
// content is placed on clusters; nil if it is stamped. A recorded name of the
// physical namespace and recorded targets stay.
func Namespace(namespace *corev1.Namespace, cluster logicalcluster.Name, controlPlane string, clusters []string) []byte {
	targets := TargetsOf(namespace.Annotations)
	complete := targets != nil
	for name, target := range TargetsOn(clusters) {
		if _, ok := targets[name]; ok {
			continue
		}
		complete = false
		if targets == nil {
			targets = placementv1alpha1.Targets{}
		}
		targets[name] = target
	}
	physical := namespace.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
	if complete && physical != "" && slices.Contains(namespace.Finalizers, placementv1alpha1.CopiesFinalizer) {
		return nil
	}
	if physical == "" {
		physical = PhysicalNamespace(controlPlane, cluster, namespace.Name, namespace.UID)
	}
	return encode(namespaceMetadata{
		UID: namespace.UID,
		Annotations: map[string]string{
			placementv1alpha1.TargetsAnnotation:           targets.String(),
			placementv1alpha1.PhysicalNamespaceAnnotation: physical,
		},
		Finalizers: []string{placementv1alpha1.CopiesFinalizer},
	})
}
