package boundary

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Passage is who wants to send an object where.
type Passage struct {
	// Permits of the physical cluster.
	Permits Permits
	// Tenant is the value of TenantLabel on the namespaces of the logical cluster.
	Tenant string
	// Asked says that the object has what its user asked for, and nothing yet that
	// servers and schedulers write into it.
	Asked bool
	// Notes are those of admission on the object.
	Notes Notes
	// Handlers are those for which the physical cluster reports a RuntimeClass that it permits;
	// nil if that is not known, or who asks looks at the classes.
	Handlers *fleetv1alpha1.ReportedNames
	// Offered are the classes that the physical cluster reports.
	Offered Classes
}

// Classes are those of a physical cluster by name; nil if that is not known, or who asks does not
// want to hear of it.
type Classes struct{ Ingress, Priority *fleetv1alpha1.ReportedNames }

// lacks says that a class is known not to be there.
func lacks(there *fleetv1alpha1.ReportedNames, name string) bool {
	return there != nil && !slices.Contains(there.Names, name)
}

// Finding is something of an object that does not go down as it is, or does nothing there.
type Finding struct {
	// Field is its path, such as spec.template.spec.tolerations[0].
	Field string
	// Verdict is Mapped, Stripped, Refused, or Waits.
	Verdict Verdict
	// Why is a sentence without its subject, which is the field.
	Why string
}

// String is the finding as a user reads it.
func (f Finding) String() string { return f.Field + ": " + f.Why }

// Refusals are the findings for which an object is refused.
func Refusals(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Verdict != Refused && f.Verdict != Judged })
}

// Filter leaves of obj what may go down, and says what it took off or changed, in
// the order of the fields. obj is changed. An object with something refused must not
// go down at all.
//
// Of a kind that has no rows in the table, as one that comes from elsewhere than
// Kubernetes, only what it says of itself is known: its templates of pods and claims.
func Filter(kind workload.Kind, obj map[string]any, p Passage) []Finding {
	f := &filter{Passage: p, kind: kind.GroupKind()}
	if s := structures[kind.GroupVersionKind]; s != nil {
		f.structure(s, obj, nil)
	} else {
		f.unknown(kind, obj)
	}
	f.keepApart(obj)
	f.podSecurity(kind, obj)
	return f.findings
}

// unknown filters an object of a kind without rows.
func (f *filter) unknown(kind workload.Kind, obj map[string]any) {
	if metadata, ok := obj["metadata"]; ok {
		f.metadata(metadata, field.NewPath("metadata"))
	}
	if len(kind.PodTemplate) > 0 {
		f.templates(kind, obj)
	}
	if len(kind.VolumeClaims) > 0 {
		for i, claim := range workload.VolumeClaims(kind, obj) {
			f.structure(structures[claimKind], claim, path(kind.VolumeClaims).Index(i))
		}
	}
}

// templates filters the pod templates at the paths that a kind names. What is there and is
// no template, its controller below may take for one. The pods of an object have one
// identity: that of the account which all its templates name.
func (f *filter) templates(kind workload.Kind, obj map[string]any) {
	first, account := true, ""
	workload.TemplatePaths(kind, obj, func(at []string, value any) {
		t, ok := value.(map[string]any)
		if !ok {
			if value != nil {
				f.find(path(at), Refused, "is no pod template")
			}
			return
		}
		f.structure(podTemplate, t, path(at))
		spec, _ := t["spec"].(map[string]any)
		named := str(spec["serviceAccountName"])
		if !first && named != account {
			f.find(path(at).Child("spec", "serviceAccountName"), Refused, "differs from that of another pod template of the object")
		}
		first, account = false, named
	})
}

func path(names []string) *field.Path { return field.NewPath(names[0], names[1:]...) }

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
func (f *filter) structure(s *structure, value map[string]any, at *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if _, there := value[name]; !there {
			continue // another field took it off
		}
		if s.typed && (name == "apiVersion" || name == "kind") {
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
	h := handlers[m.name]
	switch {
	case m.verdict == Own && h == nil:
		return nil, false
	case m.verdict == Metadata:
		f.metadata(value, at)
		return value, true
	case unset(value) && !meantEmpty[m.name]:
		return value, m.verdict != Own
	case h != nil:
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

// podVolumes are where pods have the volume of their token, which is replaced by one of ours.
const podVolumes = "core/v1 PodSpec.volumes"

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
			// Only volumes are replaced: whatever else looks like one goes down.
			if e, ok := item.(map[string]any); ok && (m.name != podVolumes || !workload.IsTokenVolume(e)) {
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
