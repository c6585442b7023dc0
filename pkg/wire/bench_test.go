package wire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

// BenchmarkWatch reads events as client-go does, each with a Deployment of some 2.5 KiB.
func BenchmarkWatch(b *testing.B) {
	var entries []string
	for i := range 40 {
		entries = append(entries, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"some value of it","number":%d}`, i, i))
	}
	event := `{"type":"MODIFIED","object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}},` +
		`"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","env":[` + strings.Join(entries, ",") + `]}]}}}}}` + "\n"
	stock := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
	for _, side := range []struct {
		name string
		from runtime.NegotiatedSerializer
	}{{"stock", stock}, {"ours", serializer{stock}}} {
		b.Run(side.name, func(b *testing.B) {
			info, _ := runtime.SerializerInfoForMediaType(side.from.SupportedMediaTypes(), runtime.ContentTypeJSON)
			frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewBufferString(strings.Repeat(event, b.N))))
			events := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), info.Serializer)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, _, err := events.Decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
