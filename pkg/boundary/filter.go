package boundary

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Passage is who wants to send an object where.
type Passage struct {
	// Permits of the physical cluster.
	Permits Permits
	// Tenant is the value of TenantLabel on the namespaces of the logical cluster.
	Tenant string
}

// Finding is something of an object that does not go down as it is.
type Finding struct {
	// Field is its path, such as spec.template.spec.tolerations[0].
	Field string
	// Verdict is Mapped, Stripped or Refused.
	Verdict Verdict
	// Why is a sentence without its subject, which is the field.
	Why string
}

// String is the finding as a user reads it.
func (f Finding) String() string { return f.Field + ": " + f.Why }

// Refusals are the findings for which an object is refused.
func Refusals(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Verdict != Refused })
}

// Filter leaves of obj what may go down, and says what it took off or changed, in
// the order of the fields. obj is changed. An object of a kind that has no row in
// the table, or with something refused, must not go down at all.
func Filter(gvk schema.GroupVersionKind, obj map[string]any, p Passage) []Finding {
	s := structures[gvk]
	if s == nil {
		return []Finding{{Field: "kind", Verdict: Refused, Why: fmt.Sprintf("%s has no copies on physical clusters", gvk.GroupKind())}}
	}
	f := &filter{Passage: p, kind: gvk.GroupKind()}
	f.structure(s, obj, nil, "apiVersion", "kind")
	return f.findings
}

// filter is one pass over one object.
type filter struct {
	Passage
	kind     schema.GroupKind
	findings []Finding
}

func (f *filter) find(at *field.Path, verdict Verdict, why string) {
	f.findings = append(f.findings, Finding{Field: at.String(), Verdict: verdict, Why: why})
}

// structure filters the fields of a struct.
func (f *filter) structure(s *structure, value map[string]any, at *field.Path, ignored ...string) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if slices.Contains(ignored, name) {
			continue
		}
		m, known := s.fields[name]
		below := child(at, name)
		if !known {
			delete(value, name)
			f.find(below, Stripped, "is not known to this version, and does not go down")
			continue
		}
		if out, keep := f.member(m, value[name], value, below); keep {
			value[name] = out
		} else {
			delete(value, name)
		}
	}
}

// member decides about one field. What is not set passes: it names nothing.
func (f *filter) member(m member, value any, parent map[string]any, at *field.Path) (out any, keep bool) {
	switch {
	case m.verdict == Own:
		return nil, false
	case m.verdict == Metadata:
		f.metadata(value, at)
		return value, true
	case unset(value):
		return value, true
	}
	if h := handlers[m.name]; h != nil {
		if out, keep = h(f, m, value, parent, at); keep {
			f.parts(m, out, at)
		}
		return out, keep
	}
	if m.verdict == Stripped || m.verdict == Refused {
		f.find(at, m.verdict, m.why)
		return nil, false
	}
	f.parts(m, value, at)
	return value, true
}

// parts filters what a value consists of.
func (f *filter) parts(m member, value any, at *field.Path) {
	if m.part == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		f.structure(m.part, v, at)
	case []any:
		for i, item := range v {
			if e, ok := item.(map[string]any); ok {
				f.structure(m.part, e, at.Index(i))
			}
		}
	}
}

func child(at *field.Path, name string) *field.Path {
	if at == nil {
		return field.NewPath(name)
	}
	return at.Child(name)
}

// unset says that a value is what a field has when nobody sets it.
func unset(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	}
	return false // an empty map may mean everything, as a selector does
}
