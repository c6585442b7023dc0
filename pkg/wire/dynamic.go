package wire

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewDynamic makes a dynamic client as dynamic.NewForConfig does.
func NewDynamic(c *rest.Config) (dynamic.Interface, error) {
	c = dynamic.ConfigFor(c) // the client says who it is
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	return NewDynamicForClient(c, client)
}

// NewDynamicForClient makes a dynamic client as dynamic.NewForConfigAndClient does.
func NewDynamicForClient(c *rest.Config, client *http.Client) (dynamic.Interface, error) {
	c = dynamic.ConfigFor(c)
	c.NegotiatedSerializer = serializer{c.NegotiatedSerializer}
	c.GroupVersion, c.APIPath = nil, "/" // each request names its path
	r, err := rest.UnversionedRESTClientForConfigAndClient(c, client)
	if err != nil {
		return nil, fmt.Errorf("making a REST client: %w", err)
	}
	return dynamic.New(r), nil
}

// serializer is that of the dynamic client, with another reader of JSON.
type serializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s serializer) SupportedMediaTypes() []runtime.SerializerInfo {
	stock := s.NegotiatedSerializer.SupportedMediaTypes()
	infos := make([]runtime.SerializerInfo, len(stock))
	for i, info := range stock {
		if info.MediaType == runtime.ContentTypeJSON {
			info.Serializer = objects{info.Serializer}
			stream := *info.StreamSerializer
			stream.Serializer = events{stream.Serializer}
			info.StreamSerializer = &stream
		}
		infos[i] = info
	}
	return infos
}
