package connection

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// KindGone asks for the proof that nothing can be there of a kind which the physical cluster does not serve, see
// syncer.KindGone; an error says that an answer is missing which may prove it.
func (p Physical) KindGone(ctx context.Context, kind schema.GroupResource) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	name := kind.String() // as definitions are named
	_, err = p.Metadata.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	definition := syncer.AnswerOf(err, definitions.GroupResource(), name)
	listed, services := syncer.AnswerUnclear, []metav1.PartialObjectMetadata(nil)
	if definition == syncer.AnswerGone {
		services, err = p.apiServices(ctx)
		listed = syncer.AnswerOf(err, apiServices.GroupResource(), "")
	}
	gone, again := syncer.KindGone(kind.Group, definition, listed, services)
	if again {
		return false, fmt.Errorf("looking for who defines %s: %w", kind.Resource, err)
	}
	return gone, nil
}

// maxServices bounds what is read of APIServices: a stock API server has about fifty.
const maxServices = 5000

// apiServices are those of the physical cluster.
func (p Physical) apiServices(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	for options := (metav1.ListOptions{Limit: 500}); ; {
		list, err := p.Metadata.Resource(apiServices).List(ctx, options)
		switch {
		case err != nil:
			return nil, err
		case len(all)+len(list.Items) > maxServices:
			return nil, apierrors.NewBadRequest("there are too many APIServices")
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
}
