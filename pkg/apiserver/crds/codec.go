package crds

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
)

// keptSpecs bounds the specs that are kept for definitions to come. A spec that
// falls out is kept by those that have it.
const keptSpecs = 512

// SharingCodec is a storage codec of CustomResourceDefinitions whose decoded objects
// share equal specs. The watch cache holds every definition of every logical
// cluster, most of what one weighs (hundreds of KiB) is its schema, and nearly all of
// them come from the same few manifests. Upstream replaces specs, it never changes
// one in place.
func SharingCodec(codec runtime.Codec) runtime.Codec {
	return &sharingCodec{Codec: codec, specs: lru.New(keptSpecs)}
}

type sharingCodec struct {
	runtime.Codec
	mu    sync.Mutex
	specs *lru.Cache // hash of the stored spec -> *apiextensions.CustomResourceDefinitionSpec
}

// stored is a definition as it is in etcd, with what is not shared left as it is.
type stored struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   json.RawMessage `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
	Status     json.RawMessage `json:"status"`
}

// Decode implements runtime.Decoder.
func (c *sharingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var parts stored
	if json.Unmarshal(data, &parts) != nil || parts.APIVersion != apiextensionsv1.SchemeGroupVersion.String() || len(parts.Spec) == 0 {
		return c.Codec.Decode(data, defaults, into)
	}
	key := sha256.Sum256(parts.Spec)
	if known := c.find(key); known != nil {
		parts.Spec = json.RawMessage("{}")
		rest, err := json.Marshal(parts)
		if err != nil {
			return c.Codec.Decode(data, defaults, into)
		}
		obj, kind, err := c.Codec.Decode(rest, defaults, into)
		if crd, ok := obj.(*apiextensions.CustomResourceDefinition); ok && err == nil {
			crd.Spec = *known
		}
		return obj, kind, err
	}
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if crd, ok := obj.(*apiextensions.CustomResourceDefinition); ok && err == nil {
		spec := crd.Spec
		c.mu.Lock()
		c.specs.Add(key, &spec)
		c.mu.Unlock()
	}
	return obj, kind, err
}

func (c *sharingCodec) find(key [sha256.Size]byte) *apiextensions.CustomResourceDefinitionSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.specs.Get(key)
	if !ok {
		return nil
	}
	return known.(*apiextensions.CustomResourceDefinitionSpec)
}
