package aggregation

import (
	"bytes"
	"testing"
)

// FuzzPage: a list of an aggregated server is read, or it is none; what was read is bounded by
// what came.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`))
	f.Add([]byte(`{"items":[{"metadata":[]},1,{}`))
	f.Add([]byte(`{"items":{},"items":[[]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		page, err := readPage(bytes.NewReader(data))
		if len(page.items) > len(data) || err != nil && len(page.items) > 0 {
			t.Errorf("%d items and %v of %q", len(page.items), err, data)
		}
	})
}
