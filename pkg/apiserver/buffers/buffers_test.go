package buffers

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

func large() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"a": strings.Repeat("x", 1<<20)}}
}

// encoded encodes objects in one buffer, as a watch does.
func encoded(t *testing.T, codecs runtime.NegotiatedSerializer, mediaType string, objects ...runtime.Object) (text []byte, buffer *runtime.Allocator) {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatal("no serializer of", mediaType)
	}
	var out bytes.Buffer
	buffer = &runtime.Allocator{}
	e := codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).(runtime.EncoderWithAllocator)
	for _, o := range objects {
		if err := e.EncodeWithAllocator(o, &out, buffer); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes(), buffer
}

func TestABufferStaysSmallWhateverIsEncodedInIt(t *testing.T) {
	t.Parallel()
	medium := large()
	medium.Data["a"] = medium.Data["a"][:Held/growth-200]
	objects := []runtime.Object{&corev1.ConfigMap{}, large(), medium, &corev1.ConfigMap{}, large()}
	for _, mediaType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		stock, grown := encoded(t, scheme.Codecs, mediaType, objects...)
		if mediaType == runtime.ContentTypeProtobuf && capacity(grown) < 1<<20 {
			t.Errorf("upstream's buffer has %d bytes: it does not need this package any more", capacity(grown))
		}
		text, buffer := encoded(t, Serializer(scheme.Codecs), mediaType, objects...)
		if !bytes.Equal(stock, text) {
			t.Errorf("%s: the text is another one", mediaType)
		}
		if n := capacity(buffer); n > Held {
			t.Errorf("%s: the buffer has %d bytes", mediaType, n)
		}
	}
}

// counted counts what is written into a splice: it keeps that much.
type counted struct {
	splice
	most int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.splice.Write(p)
	c.most = max(c.most, len(c.Bytes()))
	return n, err
}

func TestTheTextOfAWatchIsKeptOnlyIfItIsSmall(t *testing.T) {
	t.Parallel()
	for _, mediaType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
		kept := &counted{splice: runtime.NewSpliceBuffer()}
		e := Serializer(scheme.Codecs).EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).(runtime.EncoderWithAllocator)
		for _, o := range []runtime.Object{&corev1.ConfigMap{}, large(), &corev1.ConfigMap{}, large()} {
			want, _ := encoded(t, scheme.Codecs, mediaType, o)
			if err := e.EncodeWithAllocator(o, kept, &runtime.Allocator{}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, kept.Bytes()) {
				t.Errorf("%s: the text is another one", mediaType)
			}
			kept.Reset()
		}
		if kept.most > Held {
			t.Errorf("%s: %d bytes are kept", mediaType, kept.most)
		}
	}
}

func TestWhatComesInPartsIsKeptWhole(t *testing.T) {
	t.Parallel()
	kept := runtime.NewSpliceBuffer()
	w := &writer{splice: kept}
	var want []byte
	for _, n := range []int{1, Held - 1, 1, 7} {
		part := bytes.Repeat([]byte{byte(n)}, n)
		if wrote, err := w.Write(part); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
		want = append(want, part...)
	}
	if !bytes.Equal(want, w.large) || len(kept.Bytes()) > 0 {
		t.Errorf("%d bytes, and %d kept", len(w.large), len(kept.Bytes()))
	}
}

func TestEncodersAreTheSameToWatchCaches(t *testing.T) {
	t.Parallel()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	want := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Identifier()
	if got := Serializer(scheme.Codecs).EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Identifier(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Not parallel: it needs the pool for itself, and that nothing empties it.
func TestALargeBufferIsNotThereForTheNext(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	answer := func(size uint64) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			buffer := runtime.AllocatorPool.Get().(*runtime.Allocator)
			defer runtime.AllocatorPool.Put(buffer)
			buffer.Allocate(size)
		})
	}
	next := func() int {
		buffer := runtime.AllocatorPool.Get().(*runtime.Allocator)
		defer runtime.AllocatorPool.Put(buffer)
		return capacity(buffer)
	}
	ask := func(h http.Handler) {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	// With the race detector a pool loses some of what it is given.
	has := func(h http.Handler, enough func(int) bool) bool {
		for range 100 {
			if ask(h); enough(next()) {
				return true
			}
		}
		return false
	}
	if !has(answer(1<<20), func(n int) bool { return n >= 1<<20 }) {
		t.Fatal("without, the next has a small buffer: nothing is shown")
	}
	drop()
	if has(Dropping(answer(1<<20)), func(n int) bool { return n > Held }) {
		t.Error("the next has a large buffer")
	}
	if !has(Dropping(answer(1<<10)), func(n int) bool { return n == 1<<10 }) {
		t.Error("a small buffer is dropped")
	}
}
