package viewtest

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// MetadataOf lists the metadata of what a client lists.
func MetadataOf(client dynamic.Interface) metadata.Interface { return metadataClient{client} }

type metadataClient struct{ dynamic.Interface }

// Resource implements metadata.Interface.
func (c metadataClient) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return metadataLists{of: c.Interface.Resource(gvr)}
}

// metadataLists lists; nobody here asks it for anything else.
type metadataLists struct {
	metadata.Getter
	of dynamic.NamespaceableResourceInterface
}

// List implements metadata.ResourceInterface.
func (l metadataLists) List(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	whole, err := l.of.List(ctx, o)
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	return list, runtime.DefaultUnstructuredConverter.FromUnstructured(whole.UnstructuredContent(), list)
}
