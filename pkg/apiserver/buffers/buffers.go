// Package buffers bounds the memory in which answers are encoded, and that watches keep.
//
// Upstream encodes an object as protobuf in a buffer that it takes from a pool and that grows to three times the largest
// object it was ever used for; a watch keeps it until it ends, beside two more for the text of the object and of the
// event. So a watch that was sent an object of a MiB keeps five, and one that was sent nothing keeps what whoever had the
// buffer before needed. A tenant has two thousand watches. Here what is large is encoded in memory of its own, which goes
// when it is written.
//
//	watches of            keep
//	built-in kinds        three times Held at most, see Serializer
//	metadata of any kind  the metadata of one object up to four times: they are small
//	custom resources      one object twice: upstream's handler of them makes its serializer itself. They count for
//	                      it, see pkg/apiserver/limits
//
// What is in the pool is small after each request, see Dropping. Decision 0087.
package buffers

import (
	"io"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Held is how many bytes a buffer has that is kept.
const Held = 64 << 10

// growth is how many times as large as what is encoded upstream makes a buffer.
const growth = 3

// Serializer encodes as codecs does, in buffers that stay small.
func Serializer(codecs runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return serializer{codecs}
}

type serializer struct{ runtime.NegotiatedSerializer }

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (s serializer) EncoderForVersion(e runtime.Encoder, version runtime.GroupVersioner) runtime.Encoder {
	inner := s.NegotiatedSerializer.EncoderForVersion(e, version)
	if with, ok := inner.(runtime.EncoderWithAllocator); ok {
		return encoder{with}
	}
	return inner
}

type encoder struct{ runtime.EncoderWithAllocator }

// EncodeWithAllocator implements runtime.EncoderWithAllocator.
func (e encoder) EncodeWithAllocator(obj runtime.Object, w io.Writer, buffer runtime.MemoryAllocator) error {
	kept, ok := w.(runtime.Splice)
	if !ok {
		return e.EncoderWithAllocator.EncodeWithAllocator(obj, w, small{buffer})
	}
	text := &writer{splice: kept}
	if err := e.EncoderWithAllocator.EncodeWithAllocator(obj, text, small{buffer}); err != nil {
		return err
	}
	if text.large != nil {
		kept.Splice(text.large)
	}
	return nil
}

// splice is embedded by another name: a field Splice would hide the method.
type splice = runtime.Splice

// writer writes into what is kept as long as that stays small. What was encoded for all watches at once it passes on as
// it is.
type writer struct {
	splice
	large []byte
}

var _ runtime.Splice = &writer{}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	switch {
	case w.large != nil:
		w.large = append(w.large, p...)
	case len(w.Bytes())+len(p) > Held:
		w.large = slices.Concat(w.Bytes(), p)
		w.Reset()
	default:
		return w.splice.Write(p)
	}
	return len(p), nil
}

// small leaves a buffer as it is if more is asked for than it may hold.
type small struct{ runtime.MemoryAllocator }

// Allocate implements runtime.MemoryAllocator.
func (s small) Allocate(n uint64) []byte {
	if n > Held/growth {
		return make([]byte, n)
	}
	return s.MemoryAllocator.Allocate(n)
}

// Dropping takes a buffer that a request has made large out of the pool. It has to be called by the goroutine that
// encodes the answer: what a pool was given last by a processor is what that gets first.
func Dropping(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer drop()
		next.ServeHTTP(w, req)
	})
}

func drop() {
	buffer, ok := runtime.AllocatorPool.Get().(*runtime.Allocator)
	if ok && capacity(buffer) <= Held {
		runtime.AllocatorPool.Put(buffer)
	}
}

// capacity is how many bytes a buffer has.
func capacity(buffer *runtime.Allocator) int { return cap(buffer.Allocate(0)) }
