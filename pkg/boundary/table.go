package boundary

import (
	_ "embed"
	"fmt"
	"strings"
)

// Verdict is what becomes of a field; table.txt says what each means.
type Verdict string

// The verdicts.
const (
	AsIs     Verdict = "as-is"
	Metadata Verdict = "metadata"
	Judged   Verdict = "judged"
	Own      Verdict = "own"
	Mapped   Verdict = "mapped"
	Stripped Verdict = "stripped"
	Refused  Verdict = "refused"
)

// Waits is no verdict of the table: the field goes down, and nothing comes of it until the physical
// cluster has the class that it names.
const Waits Verdict = "waits"

// speaks says that a user hears of the verdict, so that its row has a sentence.
func (v Verdict) speaks() bool { return v == Mapped || v == Stripped || v == Refused }

// row is the verdict on one field.
type row struct {
	verdict Verdict
	why     string // what the user hears after the name of the field
}

// table has the rows by type (such as "core/v1 PodSpec") and field.
type table map[string]map[string]row

//go:embed table.txt
var text string

var rows = func() table {
	t, err := parse(text)
	if err != nil {
		panic(err) // the text is part of the program, and a test reads it
	}
	return t
}()

// parse reads the format of table.txt. A line without indentation begins a type.
func parse(text string) (table, error) {
	t := table{}
	var current map[string]row
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.HasPrefix(line, "\t") {
			if t[line] != nil {
				return nil, fmt.Errorf("line %d: %s is there twice", i+1, line)
			}
			current = map[string]row{}
			t[line] = current
			continue
		}
		names, why, _ := strings.Cut(line, ": ")
		words := strings.Fields(names)
		if current == nil || len(words) < 2 {
			return nil, fmt.Errorf("line %d: want a type, or a verdict and fields", i+1)
		}
		r := row{verdict: Verdict(words[0]), why: why}
		switch r.verdict {
		case AsIs, Metadata, Judged, Own, Mapped, Stripped, Refused:
		default:
			return nil, fmt.Errorf("line %d: no verdict: %s", i+1, words[0])
		}
		if r.verdict.speaks() != (why != "") {
			return nil, fmt.Errorf("line %d: %s: a sentence is wanted if and only if a user hears of it", i+1, r.verdict)
		}
		for _, name := range words[1:] {
			if _, ok := current[name]; ok {
				return nil, fmt.Errorf("line %d: %s is there twice", i+1, name)
			}
			current[name] = r
		}
	}
	return t, nil
}
