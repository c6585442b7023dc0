package sharing

import (
	"encoding/binary"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// mostFields is up to how many bytes a set of fields is shared: controllers make
	// many alike, people make large ones.
	mostFields = 1024
	// mostText is up to how many bytes a text is shared.
	mostText = 64
	// kinds bounds how many sets and texts are remembered for a while: twice as many.
	kinds = 1 << 12
	// moments bounds how many lists of entries are remembered: they are equal if objects
	// were written within the same second.
	moments = 1 << 8
	// mostEach is up to how many entries a list is shared.
	mostEach = 4
)

// Fields has one of each of the sets of managed fields that were seen lately, and of
// the names of managers and the like. The zero value is ready.
type Fields struct {
	sets  interned[*metav1.FieldsV1]
	lists interned[[]metav1.ManagedFieldsEntry]
	texts texts
}

// Share makes entries, which nobody else has yet, share what equals those of others,
// and returns the list to use: maybe that of another object. Neither may be changed
// afterwards.
func (s *Fields) Share(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	shared := len(entries) > 0 && len(entries) <= mostEach
	var buffer [512]byte
	content := buffer[:0]
	for i := range entries {
		e := &entries[i]
		e.Manager, e.APIVersion, e.FieldsType, e.Subresource = s.Text(e.Manager), s.Text(e.APIVersion), s.Text(e.FieldsType), s.Text(e.Subresource)
		e.Operation = metav1.ManagedFieldsOperationType(s.Text(string(e.Operation)))
		if raw := e.FieldsV1.GetRawBytes(); len(raw) > 0 && len(raw) <= mostFields {
			e.FieldsV1 = s.sets.intern(raw, e.FieldsV1, kinds)
		} else {
			shared = false
		}
		if shared {
			content = appendEntry(content, e)
		}
	}
	if !shared {
		return entries
	}
	return s.lists.intern(content, entries, moments)
}

// appendEntry appends what e says to content, the same for equal entries only. Fields
// are one where they are equal: their address will do, which nothing else gets while
// the content is remembered.
func appendEntry(content []byte, e *metav1.ManagedFieldsEntry) []byte {
	for _, text := range [...]string{e.Manager, string(e.Operation), e.APIVersion, e.FieldsType, e.Subresource} {
		content = binary.AppendUvarint(content, uint64(len(text)))
		content = append(content, text...)
	}
	content = binary.LittleEndian.AppendUint64(content, uint64(reflect.ValueOf(e.FieldsV1).Pointer()))
	if e.Time == nil {
		return append(content, 0)
	}
	content = append(content, 1)
	content = binary.LittleEndian.AppendUint64(content, uint64(e.Time.Unix()))
	return binary.LittleEndian.AppendUint32(content, uint32(e.Time.Nanosecond()))
}

// Text returns a text equal to t: the one that all others get.
func (s *Fields) Text(t string) string {
	if t == "" || len(t) > mostText {
		return t
	}
	return s.texts.intern(t, kinds)
}
