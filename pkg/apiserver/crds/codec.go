package crds

import (
	"crypto/sha256"
	"encoding/json"
	goruntime "runtime"
	"sync"
	"unsafe"
	"weak"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json" // a key in other letters is another key
)

// SharingCodec is a storage codec of CustomResourceDefinitions whose decoded objects
// share equal versions. The watch cache holds every definition of every logical
// cluster, most of what one weighs (hundreds of KiB) is its schema, and nearly all of
// them come from the same few manifests. Upstream replaces specs, it never changes
// one in place. Versions stay for as long as an object has them.
func SharingCodec(codec runtime.Codec) runtime.Codec {
	return &sharingCodec{Codec: codec, known: map[versionsKey]sharedSpec{}}
}

type sharingCodec struct {
	runtime.Codec
	texts texts
	mu    sync.Mutex
	known map[versionsKey]sharedSpec
}

// versionsKey is a hash of the versions as they are stored.
type versionsKey [sha256.Size]byte

// sharedSpec is what a spec has by its versions, without what is heavy, which it holds
// weakly: the memory of the versions, and the schema that they have in common.
type sharedSpec struct {
	light      apiextensions.CustomResourceDefinitionSpec
	versions   weak.Pointer[apiextensions.CustomResourceDefinitionVersion]
	count      int
	validation weak.Pointer[apiextensions.CustomResourceValidation]
	common     bool
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
	var spec map[string]json.RawMessage
	if utiljson.Unmarshal(data, &parts) != nil || parts.APIVersion != apiextensionsv1.SchemeGroupVersion.String() ||
		utiljson.Unmarshal(parts.Spec, &spec) != nil || len(spec["versions"]) == 0 {
		return c.Codec.Decode(data, defaults, into)
	}
	key := versionsKey(sha256.Sum256(spec["versions"]))
	if known, ok := c.find(key); ok {
		delete(spec, "versions")
		if rest, err := parts.with(spec); err == nil {
			obj, kind, err := c.Codec.Decode(rest, defaults, into)
			if crd, ok := obj.(*apiextensions.CustomResourceDefinition); ok && err == nil {
				known.put(&crd.Spec)
				c.texts.cached(crd)
			}
			return obj, kind, err
		}
	}
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if crd, ok := obj.(*apiextensions.CustomResourceDefinition); ok && err == nil && len(crd.Spec.Versions) > 0 {
		// What was decoded points into the object that it was converted from, which is as
		// heavy; a copy does not.
		crd.Spec = *crd.Spec.DeepCopy()
		c.texts.cached(crd)
		c.keep(key, versionsOf(crd.Spec))
	}
	return obj, kind, err
}

// with is the object with another spec.
func (s stored) with(spec map[string]json.RawMessage) (data []byte, err error) {
	if s.Spec, err = json.Marshal(spec); err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// versionsOf is what a spec has by its versions alone.
func versionsOf(s apiextensions.CustomResourceDefinitionSpec) apiextensions.CustomResourceDefinitionSpec {
	var v apiextensions.CustomResourceDefinitionSpec
	fromVersions(s).put(&v)
	return v
}

// fromVersions is what a spec has by its versions: what all of them have in common is in
// fields of its own.
type fromVersions apiextensions.CustomResourceDefinitionSpec

func (v fromVersions) put(s *apiextensions.CustomResourceDefinitionSpec) {
	s.Version, s.Versions, s.Validation, s.Subresources = v.Version, v.Versions, v.Validation, v.Subresources
	s.AdditionalPrinterColumns, s.SelectableFields = v.AdditionalPrinterColumns, v.SelectableFields
}

func (c *sharingCodec) keep(key versionsKey, spec apiextensions.CustomResourceDefinitionSpec) {
	s := sharedSpec{light: spec, versions: weak.Make(&spec.Versions[0]), count: len(spec.Versions), common: spec.Validation != nil}
	if s.common {
		s.validation = weak.Make(spec.Validation)
	}
	s.light.Versions, s.light.Validation = nil, nil
	goruntime.AddCleanup(&spec.Versions[0], c.forget, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[key] = s
}

// forget removes what nobody holds any more, if it was not kept again since.
func (c *sharingCodec) forget(key versionsKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[key].versions.Value() == nil {
		delete(c.known, key)
	}
}

// find returns the versions that some object has; false if none does.
func (c *sharingCodec) find(key versionsKey) (fromVersions, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known[key]
	if !ok {
		return fromVersions{}, false
	}
	first, validation := known.versions.Value(), known.validation.Value()
	if first == nil || known.common && validation == nil {
		return fromVersions{}, false
	}
	spec := known.light
	spec.Versions, spec.Validation = unsafe.Slice(first, known.count), validation
	return fromVersions(spec), true
}
