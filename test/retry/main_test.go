package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module is a Go module whose packages fail each in their way.
var module = map[string]string{
	"go.mod":               "module example.com/flaky\n\ngo 1.24\n",
	"good/good_test.go":    file(`func TestGood(t *testing.T) { t.Log("is quiet") }`),
	"bad/bad_test.go":      file(`func TestBad(t *testing.T) { t.Error("is bad") }`, `func TestFine(t *testing.T) {}`),
	"panics/panic_test.go": file(`func TestPanics(t *testing.T) { panic("at once") }`, `func TestNeverRuns(t *testing.T) {}`),
	"breaks/break_test.go": file(`func TestBreaks(t *testing.T) { undefined() }`),
	"late/late_test.go": strings.Replace(file(`func TestLate(t *testing.T) {
	t.Run("the first time", func(t *testing.T) {
		if err := os.Mkdir("ran", 0o700); err == nil { t.Fatal("is late") }
	})
}`), `import "testing"`, "import (\n\"os\"\n\"testing\"\n)", 1),
}

func file(declarations ...string) string {
	return "package tests\n\nimport \"testing\"\n\n" + strings.Join(declarations, "\n")
}

// The real go, with real tests.
func TestOnlyAListedTestMayPassTheSecondTime(t *testing.T) {
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.DateOnly)
	listed := fmt.Sprintf("TestLate %s #1 the first directory is late", tomorrow)
	expired := "TestLate 2020-01-01 #1 the first directory is late"
	for _, c := range []struct {
		name, list, packages string
		passes               bool
		says, neverSays      string
	}{
		{"all pass", "", "./good", true, "ok ", "is quiet"},
		{"a test that always fails", listed, "./good ./bad", false, "TestBad failed twice", "TestFine"},
		{"a flaky test that is not listed", "", "./good ./late", false, "TestLate passed only the second time", "failed twice"},
		{"why a flaky test failed is repeated at the end", "", "./late", false, "== TestLate said at first: late_test.go:10: is late\n== TestLate passed only the second time", "failed twice"},
		{"a flaky test that is listed", listed, "./good ./late", true, "TestLate passed the second time, as test/flaky.txt allows until " + tomorrow, "failed twice"},
		{"a line that has expired", expired, "./good", false, "TestLate could stay until 2020-01-01", "ok "},
		{"a panic, behind which tests did not run", "", "./panics", false, "example.com/flaky/panics did not run to its end", "once more"},
		{"a package that does not compile", "", "./good ./breaks", false, "example.com/flaky/breaks did not run to its end", "once more"},
		{"a package that is not there", "", "./nowhere", false, "", "ok "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range module {
				write(t, filepath.Join(dir, name), content)
			}
			write(t, filepath.Join(dir, "list"), c.list)
			t.Chdir(dir)
			args := append([]string{"-vet=off", "--"}, strings.Fields(c.packages)...)
			var out bytes.Buffer
			passes, err := run(t.Context(), "list", args, &out)
			if err != nil {
				fmt.Fprintln(&out, err)
			}
			if passes != c.passes || !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), c.neverSays) {
				t.Errorf("passes: %v, want %v; it should say %q and not %q; it says\n%s", passes, c.passes, c.says, c.neverSays, &out)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
