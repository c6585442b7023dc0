package history

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzOfRevision: the data that is kept of a revision has the template that was read, and is read
// and written again as it is.
func FuzzOfRevision(f *testing.F) {
	good, err := Revision(templateOf("nginx"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"spec":{"template":{"$patch":"delete","metadata":{"labels":{"a":""},"annotations":{}},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1000m"}},"livenessProbe":{"httpGet":{"port":"a"}}}],"volumes":[{"emptyDir":{}}]}}}}`))
	f.Add([]byte(`{"Spec":{"template":{}},"spec":{"template":{"spec":{"Containers":[],"containers":null}}}}`))
	f.Add([]byte(`{"spec":{"template":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		template, ok := OfRevision(data)
		if !ok {
			return
		}
		// Years of five digits are written, and not read; no pod has the dates of its template.
		template.CreationTimestamp, template.DeletionTimestamp, template.ManagedFields = metav1.Time{}, nil, nil
		kept, err := Revision(template)
		if err != nil {
			t.Fatal(err)
		}
		read, ok := OfRevision(kept)
		if !ok {
			t.Fatalf("no template is read in %q, of %q", kept, data)
		}
		if again, err := Revision(read); err != nil || !bytes.Equal(again, kept) {
			t.Errorf("%q becomes %q, %v", kept, again, err)
		}
		if digest(t, read) != digest(t, template) {
			t.Errorf("%q has another template than %q", kept, data)
		}
	})
}
