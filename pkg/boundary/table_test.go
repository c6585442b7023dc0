package boundary

import (
	"reflect"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// TestTheTableHasEveryFieldOfTheTypes asks, when the types of Kubernetes change,
// what becomes of new fields.
func TestTheTableHasEveryFieldOfTheTypes(t *testing.T) {
	inTypes := table{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || leaves[typ] || inTypes[typeName(typ)] != nil {
			return
		}
		inTypes[typeName(typ)] = map[string]row{}
		for owner, f := range fields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if inTypes[typeName(owner)] == nil {
				inTypes[typeName(owner)] = map[string]row{}
			}
			r, ok := rows[typeName(owner)][name]
			if !ok {
				t.Errorf("%s has no row for %q: say in table.txt what becomes of it", typeName(owner), name)
			}
			inTypes[typeName(owner)][name] = r
			// What never goes down needs no rows for its parts.
			if r.verdict == AsIs || r.verdict == Judged || r.verdict == Mapped || handlers[typeName(owner)+"."+name] != nil {
				visit(f.Type)
			}
		}
	}
	for _, root := range roots {
		visit(root)
	}
	for typ, fields := range rows {
		for name := range fields {
			if _, ok := inTypes[typ][name]; !ok {
				t.Errorf("table.txt has a row for %s.%s, which no kind has", typ, name)
			}
		}
	}
}

func TestAHandlerIsForAFieldOfTheTable(t *testing.T) {
	for name := range handlers {
		typ, field, _ := strings.Cut(name, ".")
		if r, ok := rows[typ][field]; !ok || r.verdict == Metadata {
			t.Errorf("the handler of %s is never called", name)
		}
	}
}

func TestATableThatIsNotUnderstoodIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a type twice":       {"core/v1 A\n\tas-is b\ncore/v1 A\n", "twice"},
		"a field twice":      {"core/v1 A\n\tas-is b\n\town b\n", "twice"},
		"no type":            {"\tas-is b\n", "want a type"},
		"no field":           {"core/v1 A\n\tas-is\n", "want a type"},
		"no verdict":         {"core/v1 A\n\tkeep b\n", "no verdict"},
		"no sentence":        {"core/v1 A\n\trefused b\n", "sentence"},
		"a sentence unheard": {"core/v1 A\n\town b: because\n", "sentence"},
	} {
		if _, err := parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestEveryKindThatHasCopiesHasAType(t *testing.T) {
	for _, k := range workload.Builtin().Kinds() {
		if roots[k.GroupVersionKind] == nil && !k.Carries { // what an admin has carried is not filtered
			t.Errorf("%s has no rows: say in structure.go what its type is, and in table.txt what becomes of its fields", k.GroupVersionKind)
		}
	}
}
