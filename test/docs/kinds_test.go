package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// placing are the parts that work with kinds of the catalog. What is particular about
// a kind is said in the catalog, and not by its name there. The registries and
// upstream's plugins of admission are about the one kind that they are for.
var placing = []string{
	"pkg/syncer", "pkg/placement", "pkg/stamp", "pkg/copyindex", "pkg/controllers/copies", "pkg/controllers/orphans",
	"pkg/controllers/physicalclusters", "pkg/controllers/references", "pkg/controllers/status", "pkg/workload", "pkg/boundary", "pkg/admission", "pkg/cli",
}

// unique are the comparisons that are left, each with a reason.
var unique = map[string]string{
	// There is nothing else like the Namespace: it holds the others. What has only the
	// name of a resource, and no kind, compares that.
	`pkg/controllers/copies/controller.go: Resource == "namespaces"`: "a key names a resource",
	`pkg/syncer/mark.go: Resource != "namespaces"`:                   "a mark is read from an object of a resource",
	`pkg/syncer/place.go: Resource == "namespaces"`:                  "a Copy records a resource",
	`pkg/syncer/answer.go: Kind == "namespaces"`:                     "an answer of a server says what was not found",
	`pkg/cli/where.go: Resource == "namespaces"`:                     "a mapping names a resource; its group is compared, too",
	// What a syncer asks about is a Pod; its version, and so its group, is compared, too.
	`pkg/admission/podreview.go: Kind != "Pod"`: "a review is about pods",
}

func TestWhatIsParticularAboutAKindIsSaidInTheCatalog(t *testing.T) {
	names := map[string]bool{}
	for _, k := range workload.Builtin().All() {
		names[k.Kind], names[k.Resource] = true, true
	}
	root := process.Root()
	var found []string
	for _, dir := range placing {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, c := range comparisons(t, path, names) {
				found = append(found, filepath.ToSlash(name)+": "+c)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for c := range unique {
		want = append(want, c)
	}
	slices.Sort(want)
	slices.Sort(found)
	if diff := cmp.Diff(want, slices.Compact(found)); diff != "" {
		t.Errorf("comparisons with names of kinds or resources; make it a field of workload.Kind, or a function for its semantics (-want +got)\n%s", diff)
	}
}

// comparisons are those with one of the names: ==, != and the cases of a switch.
func comparisons(t *testing.T, path string, names map[string]bool) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	named := func(e ast.Expr) (string, bool) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return "", false
		}
		name, err := strconv.Unquote(lit.Value)
		return name, err == nil && names[name]
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if name, ok := named(n.Y); ok && (n.Op == token.EQL || n.Op == token.NEQ) {
				out = append(out, fmt.Sprintf("%s %s %q", last(n.X), n.Op, name))
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				if name, ok := named(e); ok {
					out = append(out, fmt.Sprintf("case %q", name))
				}
			}
		}
		return true
	})
	return out
}

// last is the last name of an expression.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return last(e.Fun)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
