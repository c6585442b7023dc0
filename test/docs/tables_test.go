package docs

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// update writes what is wrong here anew: the tables of docs/syncer.md, and smaller
// numbers in words.txt.
var update = flag.Bool("update", false, "update the tables of docs/syncer.md and lower the numbers of test/docs/words.txt")

// ofComment are the truth tables of a function: what its comment has indented.
func ofComment(t *testing.T, file, function string) string {
	t.Helper()
	source := read(t, "pkg", "syncer", file)
	end := strings.Index(source, "\nfunc "+function+"(")
	if end < 0 {
		t.Fatalf("pkg/syncer/%s has no function %s", file, function)
	}
	lines := strings.Split(source[:end], "\n")
	begin := len(lines)
	for begin > 0 && strings.HasPrefix(lines[begin-1], "//") {
		begin--
	}
	var table []string
	for _, line := range lines[begin:] {
		if text, ok := strings.CutPrefix(line, "//\t"); ok {
			table = append(table, text)
		} else if len(table) > 0 && table[len(table)-1] != "" {
			table = append(table, "") // between two tables
		}
	}
	return strings.TrimSpace(strings.Join(table, "\n")) + "\n"
}

func TestTheTablesOfTheSyncerPageAreThoseOfTheCode(t *testing.T) {
	page := read(t, "docs", "syncer.md")
	for function, file := range map[string]string{"Plan": "plan.go", "PlaceOf": "place.go", "Observe": "observe.go", "Identify": "identity.go"} {
		block := regexp.MustCompile("(?s)(<!-- table of " + function + ",[^\n]*-->\n```\n)(.*?)(```\n<!-- end -->)")
		m := block.FindStringSubmatch(page)
		if m == nil {
			t.Errorf("docs/syncer.md has no table of %s", function)
			continue
		}
		want := ofComment(t, file, function)
		if len(strings.Split(want, "\n")) < 5 {
			t.Errorf("%s has no table in its comment", function)
		}
		if *update {
			page = block.ReplaceAllLiteralString(page, m[1]+want+m[3])
		} else if diff := cmp.Diff(want, m[2]); diff != "" {
			t.Errorf("the table of %s; run: go test ./test/docs -update (-code +page):\n%s", function, diff)
		}
	}
	if *update {
		write(t, page, "docs", "syncer.md")
	}
}

func write(t *testing.T, content string, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(append([]string{process.Root()}, elem...)...), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
