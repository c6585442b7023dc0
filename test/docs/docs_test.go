package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

func read(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{process.Root()}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// declared are the names of all tests of the repository.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	out := map[string]bool{}
	err := filepath.WalkDir(process.Root(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range declaration.FindAllSubmatch(data, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryTestThatTheCompatibilityPageNamesExists(t *testing.T) {
	t.Parallel()
	tests := declared(t)
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(read(t, "docs", "api-compatibility.md"), -1)
	if len(named) == 0 {
		t.Error("the page names no tests")
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
}

func TestTheConformancePageListsWhatCannotPassYet(t *testing.T) {
	t.Parallel()
	page := []byte(read(t, "docs", "conformance.md"))
	for line := range strings.Lines(read(t, "test", "conformance", "e2e", "known.txt")) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if text := strings.TrimPrefix(line, "# "); !bytes.Contains(page, []byte(text)) {
			t.Errorf("docs/conformance.md does not say %q", text)
		}
	}
}
