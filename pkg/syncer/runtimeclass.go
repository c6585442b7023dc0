package syncer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// RuntimeHandler is the handler that the pods of an object need; empty if they do
// not say, or name a RuntimeClass that the logical cluster does not have.
func RuntimeHandler(logical metav1.Object) string {
	return logical.GetAnnotations()[placementv1alpha1.RuntimeHandlerAnnotation]
}

// ByHandler has for each handler the name of a RuntimeClass of a physical cluster,
// the first by name.
func ByHandler(classes []unstructured.Unstructured) map[string]string {
	byHandler := map[string]string{}
	for _, c := range classes {
		handler, _ := c.Object["handler"].(string)
		if name, ok := byHandler[handler]; handler != "" && (!ok || c.GetName() < name) {
			byHandler[handler] = c.GetName()
		}
	}
	return byHandler
}
