package controller

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// packed is what is kept of the metadata of an object. Most objects have no owner, no
// finalizer and are not being deleted: of these it is 64 bytes, where the struct that
// readers get, and the texts in it, take 400. Name and namespace are in the key.
type packed struct {
	uid                 [16]byte
	version             uint64
	created             int64 // seconds, never for none
	generation          int64
	labels, annotations map[string]string
	// whole is the object, if there is more to it than that.
	whole *metav1.PartialObjectMetadata
}

// never is the time of creation of an object that has none.
const never = math.MinInt64

func newPackedStore(indexers map[string]func(*metav1.PartialObjectMetadata) []string) store[*metav1.PartialObjectMetadata] {
	return newTree(indexers, form[*metav1.PartialObjectMetadata, packed]{pack: pack, unpack: unpack, identify: packed.identity})
}

func (p packed) identity() identity {
	if p.whole != nil {
		return identityOf(p.whole)
	}
	return identity{unpackUID(p.uid), strconv.FormatUint(p.version, 10)}
}

// pack keeps o, which must not be changed any more.
func pack(o *metav1.PartialObjectMetadata) packed {
	uid, canonical := packUID(o.UID)
	version, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	canonical = canonical && err == nil && strconv.FormatUint(version, 10) == o.ResourceVersion
	created := int64(never)
	if !o.CreationTimestamp.IsZero() {
		created = o.CreationTimestamp.Unix()
		canonical = canonical && o.CreationTimestamp.Nanosecond() == 0
	}
	if !canonical || !plain(o) {
		return packed{whole: o}
	}
	return packed{uid: uid, version: version, created: created, generation: o.Generation, labels: o.Labels, annotations: o.Annotations}
}

// plain says that o has nothing that packed has no place for.
func plain(o *metav1.PartialObjectMetadata) bool {
	return o.TypeMeta == (metav1.TypeMeta{}) && o.GenerateName == "" && o.SelfLink == "" && //nolint:staticcheck // what has the deprecated field is kept whole
		o.DeletionTimestamp == nil && o.DeletionGracePeriodSeconds == nil &&
		len(o.OwnerReferences) == 0 && len(o.Finalizers) == 0 && len(o.ManagedFields) == 0
}

func unpack(key string, p packed) *metav1.PartialObjectMetadata {
	if p.whole != nil {
		return p.whole
	}
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		UID: unpackUID(p.uid), ResourceVersion: strconv.FormatUint(p.version, 10),
		Generation: p.generation, Labels: p.labels, Annotations: p.annotations,
	}}
	if p.created != never {
		o.CreationTimestamp = metav1.Time{Time: time.Unix(p.created, 0)}
	}
	_, o.Name, _ = strings.Cut(key, "|")
	if namespace, name, ok := strings.Cut(o.Name, "/"); ok {
		o.Namespace, o.Name = namespace, name
	}
	return o
}

// dashes are where a UID has them.
var dashes = [...]int{8, 13, 18, 23}

// packUID reads a UID as the server makes them: canonical is false for any other.
func packUID(uid types.UID) (out [16]byte, canonical bool) {
	if len(uid) != 36 {
		return out, false
	}
	var digits [32]byte
	n := 0
	for i := range len(uid) {
		if b := uid[i]; b != '-' && n < len(digits) {
			digits[n] = b
			n++
		}
	}
	if _, err := hex.Decode(out[:], digits[:]); err != nil {
		return out, false
	}
	return out, unpackUID(out) == uid
}

func unpackUID(uid [16]byte) types.UID {
	var text [36]byte
	var digits [32]byte
	hex.Encode(digits[:], uid[:])
	from, to := 0, 0
	for _, dash := range dashes {
		n := copy(text[to:dash], digits[from:])
		text[dash] = '-'
		from, to = from+n, dash+1
	}
	copy(text[to:], digits[from:])
	return types.UID(text[:])
}

// thin is what is kept of an object that is no more than its metadata; whole is the
// object if there is more to it.
type thin[T Object] struct {
	packed
	whole T
}

// newThinStore keeps of an object that equals what make makes of its metadata nothing
// but that. What it returns is made for the call.
func newThinStore[T Object](meta func(T) *metav1.ObjectMeta, make func(metav1.ObjectMeta) T) func(map[string]func(T) []string) store[T] {
	return func(indexers map[string]func(T) []string) store[T] {
		return newTree(indexers, form[T, thin[T]]{
			pack: func(obj T) thin[T] {
				p := pack(&metav1.PartialObjectMetadata{ObjectMeta: *meta(obj)})
				if p.whole != nil || !equality.Semantic.DeepEqual(make(*meta(obj)), obj) {
					return thin[T]{whole: obj}
				}
				return thin[T]{packed: p}
			},
			unpack: func(key string, t thin[T]) T {
				if !isZero(t.whole) {
					return t.whole
				}
				return make(unpack(key, t.packed).ObjectMeta)
			},
			identify: func(t thin[T]) identity {
				if !isZero(t.whole) {
					return identityOf(t.whole)
				}
				return t.packed.identity()
			},
		})
	}
}
