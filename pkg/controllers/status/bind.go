package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// bind gives a Pod its node, and returns what it is then. A Pod that is gone, being
// deleted or bound meanwhile is decided upon anew.
func bind(ctx context.Context, client dynamic.ResourceInterface, pod *unstructured.Unstructured, node string) (*unstructured.Unstructured, error) {
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Binding",
		"metadata": map[string]any{"name": pod.GetName(), "namespace": pod.GetNamespace(), "uid": string(pod.GetUID())},
		"target":   map[string]any{"apiVersion": corev1.SchemeGroupVersion.String(), "kind": "Node", "name": node},
	}}
	if _, err := client.Create(ctx, binding, metav1.CreateOptions{}, "binding"); err != nil && !apierrors.IsConflict(err) {
		return nil, fmt.Errorf("binding a pod: %w", err)
	}
	return client.Get(ctx, pod.GetName(), metav1.GetOptions{})
}
