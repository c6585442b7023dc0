package aggregation

import (
	"bytes"
	"encoding/json"
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

// FuzzDocument: each resource that is shown of an aggregated server has a name and verbs, and there are
// no more than came; what cannot be read shows nothing, and has no digest.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"a.b/v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["get"]},{"name":"pods/log","kind":"Log","verbs":["get"]}]}`))
	f.Add([]byte(`{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"/","verbs":["get"]},{"name":"a/b/c","verbs":[""]},{"name":"","verbs":["get"]},{"name":"a"}]}`))
	f.Add([]byte(`{"kind":"Status","apiVersion":"v1","resources":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := readDocument("a.b", "v1", body)
		if (d.digest == "") && len(d.resources) > 0 || len(d.resources) > len(body) {
			t.Errorf("%d resources, digest %q, of %q", len(d.resources), d.digest, body)
		}
		for _, r := range d.resources {
			if r.Resource == "" || len(r.Verbs) == 0 && len(r.Subresources) == 0 {
				t.Errorf("%+v of %q", r, body)
			}
		}
		if _, err := json.Marshal(d.resources); err != nil {
			t.Error(err)
		}
	})
}

// FuzzOpenAPIHash: the hash of a document goes into keys and URLs; it is short, and a word.
func FuzzOpenAPIHash(f *testing.F) {
	f.Add([]byte(`{"paths":{"apis/a.b/v1":{"serverRelativeURL":"/openapi/v3/apis/a.b/v1?hash=0123ABC"}}}`))
	f.Add([]byte(`{"paths":{"apis/a.b/v1":{"serverRelativeURL":"?hash=%0a&hash=a"}}}`))
	f.Add([]byte(`{"paths":{"apis/a.b/v1":{"serverRelativeURL":":"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		found := readOpenAPIHash(body, "/apis/a.b/v1")
		if len(found) > 128 {
			t.Errorf("%d bytes", len(found))
		}
		for _, r := range found {
			if (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
				t.Errorf("%q of %q", found, body)
			}
		}
	})
}
