package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// long marks a test that takes a minute or more beside five others: make test-long runs these, and make test all others. Without
// ATOLL_E2E=long or ATOLL_E2E=short all run.
func long(t *testing.T) {
	t.Helper()
	t.Parallel()
}

// chooseTests skips the long tests, or all others, as ATOLL_E2E says.
func chooseTests() error {
	which := os.Getenv("ATOLL_E2E")
	if which == "" {
		return nil
	}
	marked, others, err := testsByLength()
	if err != nil {
		return err
	}
	skip := map[string][]string{"short": marked, "long": others}[which]
	if skip == nil {
		return fmt.Errorf("ATOLL_E2E is %q, and may be long, short or empty", which)
	}
	return flag.Set("test.skip", "^("+strings.Join(skip, "|")+")$") //nolint:wrapcheck // it says all
}

// testsByLength reads which tests of this package call long.
func testsByLength() (marked, others []string, _ error) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		return nil, nil, fmt.Errorf("looking for tests: %w", err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, fmt.Errorf("reading tests: %w", err)
		}
		for _, decl := range file.Decls {
			switch f, ok := decl.(*ast.FuncDecl); {
			case !ok || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain":
			case callsLong(f):
				marked = append(marked, f.Name.Name)
			default:
				others = append(others, f.Name.Name)
			}
		}
	}
	return marked, others, nil
}

func callsLong(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, ok := call.Fun.(*ast.Ident)
			found = found || ok && name.Name == "long"
		}
		return !found
	})
	return found
}
