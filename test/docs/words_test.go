package docs

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// avoided is a line of words.txt: forms of one expression that is not to be used.
type avoided struct {
	forms []string
	// identifiers says that the words are fine in comments.
	identifiers bool
	// left is how often it still occurs.
	left    int
	instead string
}

// source is the text of the project's Go files, as words in lower case with one space
// before and after each: identifiers (split where the case changes), and comments. pages
// are those of the documentation.
type source struct {
	identifiers, comments, pages string
	// upstream are identifiers that others have named: they are no words of ours.
	upstream map[string]bool
}

func (a avoided) count(s source) (n int) {
	for _, form := range a.forms {
		n += occurrences(s.identifiers, form)
		if !a.identifiers {
			n += occurrences(s.comments, form) + occurrences(s.pages, form)
		}
	}
	return n
}

func occurrences(text, words string) int { return strings.Count(text, " "+words+" ") }

// parseAvoided reads "identifiers|everywhere NUMBER form, form, ... -> what to write".
func parseAvoided(line string) (avoided, error) {
	m := regexp.MustCompile(`^(identifiers|everywhere) +(\d+) +(.+?) +-> +(.+)$`).FindStringSubmatch(line)
	if m == nil {
		return avoided{}, fmt.Errorf("%q is not of the form: identifiers|everywhere NUMBER word, word -> what to write", line)
	}
	left, err := strconv.Atoi(m[2])
	return avoided{forms: strings.Split(m[3], ", "), identifiers: m[1] == "identifiers", left: left, instead: m[4]}, err
}

// judge says what is wrong with a count, if anything.
func (a avoided) judge(n int) string {
	switch words := strings.Join(a.forms, ", "); {
	case n > a.left:
		return fmt.Sprintf("%q occurs %d times, %d are known; write: %s", words, n, a.left, a.instead)
	default:
		return "" // make verify lowers the number
	}
}

func TestWordsThatReadersCannotGuessOnlyGetFewer(t *testing.T) {
	s := words(t)
	var lines []string
	for line := range strings.Lines(read(t, "test", "docs", "words.txt")) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "upstream ") {
			lines = append(lines, line)
			continue
		}
		a, err := parseAvoided(line)
		if err != nil {
			t.Fatal(err)
		}
		n := a.count(s)
		if n < a.left && *update {
			lines = append(lines, strings.Replace(line, strconv.Itoa(a.left), strconv.Itoa(n), 1))
			continue
		}
		lines = append(lines, line)
		if problem := a.judge(n); problem != "" {
			t.Error(problem)
		}
	}
	if *update {
		write(t, strings.Join(lines, "\n")+"\n", "test", "docs", "words.txt")
	}
}

func TestAWordIsFoundInIdentifiersAndCommentsAlone(t *testing.T) {
	t.Parallel()
	s := source{upstream: map[string]bool{"WithStandIn": true}}
	s.add([]byte("package p\n\n// A stand-in for\n// the other; standing is fine.\nvar standIn, HTTPStandIn = \"stand in\", notStandIndoor, o.WithStandIn\n"))
	for line, want := range map[string]int{
		"everywhere 0 stand in -> mirror":         3,
		"identifiers 0 stand in -> mirror":        2,
		"everywhere 0 in for the -> mirror":       1, // over the end of a line
		"everywhere 0 standing, other -> mirror":  2,
		"everywhere 0 http stand in -> mirror":    1,
		"everywhere 0 stand in stand in -> twice": 0, // identifiers are apart
	} {
		a, err := parseAvoided(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.count(s); got != want {
			t.Errorf("%s: %d times, want %d, in %+v", line, got, want, s)
		}
	}
	a := avoided{forms: []string{"deed"}, left: 2, instead: "action"}
	for n, want := range map[int]string{1: "", 2: "", 3: "write: action"} {
		if got := a.judge(n); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%d occurrences: %q, want %q", n, got, want)
		}
	}
	for _, line := range []string{"deed -> action", "somewhere 1 deed -> action", "everywhere x deed -> action", "everywhere 1 deed"} {
		if _, err := parseAvoided(line); err == nil {
			t.Errorf("%q is understood", line)
		}
	}
}

// TestTheGlossaryIsThatOfTheCode: what docs/concepts.md explains is used, and our own
// kinds are explained.
func TestTheGlossaryIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	s := words(t)
	page := read(t, "docs", "concepts.md")
	begin, end := strings.Index(page, "\n## Words\n"), strings.Index(page, "\n## Promises\n")
	if begin < 0 || end < begin {
		t.Fatal("docs/concepts.md has no section Words")
	}
	terms := regexp.MustCompile(`(?m)^\| ([^|]+?) \|`).FindAllStringSubmatch(page[begin:end], -1)
	if len(terms) < 10 {
		t.Fatalf("only %d words are explained", len(terms))
	}
	for _, m := range terms[2:] { // the head of the table
		term := strings.TrimSuffix(strings.ToLower(m[1]), " object") // a placed object is of a kind that is Placed
		if occurrences(s.comments, term)+occurrences(s.comments, term+"s")+occurrences(s.identifiers, term) == 0 {
			t.Errorf("nothing in the code is called %q", m[1])
		}
	}
	var apis strings.Builder
	for _, file := range files(t, ".go", "pkg/apis") {
		apis.WriteString(read(t, file))
	}
	var missing, unknown []string
	for _, m := range regexp.MustCompile(`(?m)^type (\w+)List struct`).FindAllStringSubmatch(apis.String(), -1) {
		if !strings.Contains(page[begin:end], m[1]) {
			missing = append(missing, m[1])
		}
	}
	if diff := cmp.Diff([]string(nil), missing); diff != "" {
		t.Errorf("kinds that the glossary does not mention:\n%s", diff)
	}
	// Kinds, states and keys that it names are those of the API.
	for _, m := range regexp.MustCompile("`([A-Z]\\w+|[a-z.]*atoll\\.dev/[a-z-]+)`").FindAllStringSubmatch(page[begin:end], -1) {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(m[1]) + `\b`).MatchString(apis.String()) {
			unknown = append(unknown, m[1])
		}
	}
	if diff := cmp.Diff([]string(nil), unknown); diff != "" {
		t.Errorf("the glossary names what pkg/apis does not have:\n%s", diff)
	}
}

// The glossary lists the kinds that are copied, by their role.
func TestTheGlossaryListsTheKindsOfTheCatalog(t *testing.T) {
	t.Parallel()
	page := read(t, "docs", "concepts.md")
	want := map[workload.Role]map[string]bool{}
	for _, kind := range workload.Builtin().Kinds() {
		if want[kind.Role] == nil {
			want[kind.Role] = map[string]bool{}
		}
		want[kind.Role][kind.Kind] = true
	}
	for term, role := range map[string]workload.Role{
		"placeable object": workload.Placed, "ruling object": workload.Ruling, "referenced object": workload.Referenced,
	} {
		m := regexp.MustCompile(`(?m)^\| ` + term + ` \| (.*) \|$`).FindStringSubmatch(page)
		if m == nil {
			t.Errorf("docs/concepts.md does not explain %q", term)
			continue
		}
		got := map[string]bool{}
		for _, name := range regexp.MustCompile(`\b[A-Z]\w+`).FindAllString(m[1], -1) {
			if isKind(name) {
				got[name] = true
			}
		}
		if diff := cmp.Diff(want[role], got); diff != "" {
			t.Errorf("%s (-catalog +page):\n%s", term, diff)
		}
	}
}

// isKind tells the names of kinds from words that begin a sentence.
func isKind(name string) bool {
	return slices.ContainsFunc(workload.Builtin().Kinds(), func(k workload.Kind) bool { return k.Kind == name })
}

// TestClusterAloneIsTheLogicalOne: a field of our API that means a physical cluster
// says so.
func TestClusterAloneIsTheLogicalOne(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, ".go", "pkg/apis") {
		for _, m := range regexp.MustCompile("json:\"(clusters?)[,\"]").FindAllStringSubmatch(read(t, file), -1) {
			t.Errorf("%s has a field %s; write physicalCluster or logicalCluster", file, m[1])
		}
	}
}

// words reads the Go files of the project that people write, and its pages.
func words(t *testing.T) source {
	t.Helper()
	s := source{upstream: map[string]bool{}}
	for _, m := range regexp.MustCompile(`(?m)^upstream (\w+)$`).FindAllStringSubmatch(read(t, "test", "docs", "words.txt"), -1) {
		s.upstream[m[1]] = true
	}
	for _, file := range files(t, ".go", "pkg", "cmd", "test") {
		if !strings.HasPrefix(file, filepath.Join("test", "docs")) {
			s.add([]byte(read(t, file)))
		}
	}
	for _, file := range append(files(t, ".md", "docs"), "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md") {
		s.pages += " | " + plain(read(t, file)) + " "
	}
	return s
}

// files are those in some directories with an extension, without what is generated.
func files(t *testing.T, extension string, dirs ...string) []string {
	t.Helper()
	var out []string
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(process.Root(), dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if slices.Contains([]string{"generated", "testdata"}, d.Name()) {
					return fs.SkipDir
				}
				return nil
			}
			if strings.HasSuffix(path, extension) && !strings.HasPrefix(d.Name(), "zz_generated") {
				name, err := filepath.Rel(process.Root(), path)
				out = append(out, name)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// add takes the words of one file. Comments that follow each other are one text;
// between identifiers is more than a space.
func (s *source) add(file []byte) {
	var sc scanner.Scanner
	files := token.NewFileSet()
	sc.Init(files.AddFile("", -1, len(file)), file, nil, scanner.ScanComments)
	var identifiers, comments strings.Builder
	last := token.EOF
	for {
		_, tok, text := sc.Scan()
		switch tok {
		case token.EOF:
			s.identifiers += identifiers.String()
			s.comments += comments.String()
			return
		case token.IDENT:
			if s.upstream[text] {
				continue
			}
			identifiers.WriteString(" " + splitCase(text) + " |")
		case token.COMMENT:
			if last != token.COMMENT {
				comments.WriteString(" | ")
			}
			comments.WriteString(plain(text) + " ")
		}
		if tok != token.SEMICOLON || text != "\n" {
			last = tok
		}
	}
}

var (
	notWord = regexp.MustCompile(`[^a-zA-Z0-9']+`)
	humps   = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)
)

// plain is a comment in lower case, with one space between words.
func plain(comment string) string {
	return strings.ToLower(strings.TrimSpace(notWord.ReplaceAllString(comment, " ")))
}

// splitCase are the words of an identifier.
func splitCase(name string) string {
	var out []string
	for _, part := range humps.FindAllString(name, -1) {
		// "HTTPServer" is two words: the last capital begins the second.
		upper := strings.IndexFunc(part, func(r rune) bool { return !unicode.IsUpper(r) })
		if upper > 1 {
			out = append(out, part[:upper-1], part[upper-1:])
		} else {
			out = append(out, part)
		}
	}
	return strings.ToLower(strings.Join(out, " "))
}
