package sharing

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// mostFields is up to how many bytes a set of fields is shared: controllers make
	// many alike, people make large ones.
	mostFields = 1024
	// mostText is up to how many bytes a text is shared.
	mostText = 64
	// kinds bounds how many sets and texts are remembered for a while: twice as many.
	kinds = 1 << 12
)

// Fields has one of each of the sets of managed fields that were seen lately, and of
// the names of managers and the like. The zero value is ready.
type Fields struct {
	sets  interned[*metav1.FieldsV1]
	texts interned[string]
}

// Share makes entries, which nobody else has yet, share what equals those of others.
// What is in them must not be changed afterwards.
func (s *Fields) Share(entries []metav1.ManagedFieldsEntry) {
	for i := range entries {
		e := &entries[i]
		e.Manager, e.APIVersion, e.FieldsType, e.Subresource = s.Text(e.Manager), s.Text(e.APIVersion), s.Text(e.FieldsType), s.Text(e.Subresource)
		e.Operation = metav1.ManagedFieldsOperationType(s.Text(string(e.Operation)))
		if raw := e.FieldsV1.GetRawBytes(); len(raw) > 0 && len(raw) <= mostFields {
			e.FieldsV1 = s.sets.intern(raw, e.FieldsV1, kinds)
		}
	}
}

// Text returns a text equal to t: the one that all others get.
func (s *Fields) Text(t string) string {
	if t == "" || len(t) > mostText {
		return t
	}
	return s.texts.intern([]byte(t), t, kinds)
}
