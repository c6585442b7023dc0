package connection

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// ListMetadata is what an informer of a resource is compared with; nil without a client.
func ListMetadata(client metadata.Interface, gvr schema.GroupVersionResource) func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if client == nil {
		return nil
	}
	return client.Resource(gvr).List
}
