package controller

import (
	"fmt"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
)

// encoded is what is kept of an unstructured object: its bytes, as maps in maps take ten
// times as much, those of managed fields above all. What readers get is decoded for them,
// and shared for as long as the collector leaves it: see decision 0099.
type encoded struct {
	identity
	bytes []byte
	// whole is the object, if it cannot be encoded, or would not come back.
	whole *unstructured.Unstructured

	mu      sync.Mutex
	decoded weak.Pointer[unstructured.Unstructured]
}

// identity says which object it is, at which version.
type identity struct {
	uid     types.UID
	version string
}

func identityOf(obj Object) identity { return identity{obj.GetUID(), obj.GetResourceVersion()} }

func newEncodedStore(indexers map[string]func(*unstructured.Unstructured) []string) store[*unstructured.Unstructured] {
	return newTree(indexers, form[*unstructured.Unstructured, *encoded]{
		pack:     encode,
		unpack:   func(_ string, e *encoded) *unstructured.Unstructured { return e.object() },
		identify: func(e *encoded) identity { return e.identity },
	})
}

// encode keeps obj, which must not be changed any more.
func encode(obj *unstructured.Unstructured) *encoded {
	e := &encoded{identity: identityOf(obj)}
	var err error
	if e.bytes, err = direct.Marshal(obj.Object); err == nil && len(e.bytes) > alwaysDecoded {
		err = direct.Unmarshal(e.bytes, &map[string]any{})
	}
	if err != nil {
		e.bytes, e.whole = nil, obj
		return e
	}
	e.decoded = weak.Make(obj)
	return e
}

// alwaysDecoded is up to how many bytes an object can be decoded whatever it is: each level of depth takes a byte, and
// the decoder takes 10,000 of them. Longer ones may be deeper, or have more fields than it takes: a physical cluster
// may show such a thing to end who holds it.
const alwaysDecoded = 8 << 10

// object returns what was kept.
func (e *encoded) object() *unstructured.Unstructured {
	if e.whole != nil {
		return e.whole
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if obj := e.decoded.Value(); obj != nil {
		return obj
	}
	obj := &unstructured.Unstructured{}
	if err := direct.Unmarshal(e.bytes, &obj.Object); err != nil {
		panic(fmt.Sprintf("an object that was encoded cannot be decoded: %v", err))
	}
	e.decoded = weak.Make(obj)
	return obj
}
