package work

import (
	"fmt"
	"regexp/syntax"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The patterns of one schema: how many different ones, how long each is in instructions when it is
// compiled, and all of them. Of 474 definitions of operators none has more than 10, of 1,475 and 1,553.
const (
	MostPatterns, MostInstructions, MostOfAll = 250, 20_000, 100_000
	// mostText bounds what is compiled to find that out: a pattern repeats at most a thousand times.
	mostText = 16 << 10
)

// Refused says what is wrong with the patterns of a schema at path. It compiles no more of them than are permitted.
//
//	a pattern of more than 16 KiB, or 20,000 instructions   forbidden
//	the 251st pattern                                       forbidden
//	more than 100,000 instructions together                 forbidden
//	one that does not compile                               as upstream says
func Refused(s *apiextensions.JSONSchemaProps, path *field.Path) *field.Error {
	r := refusing{known: map[string]int64{}}
	r.schema(s, path)
	return r.err
}

type refusing struct {
	known map[string]int64
	all   int64
	err   *field.Error
}

func (r *refusing) schema(s *apiextensions.JSONSchemaProps, path *field.Path) {
	if s == nil || r.err != nil {
		return
	}
	if _, ok := r.known[s.Pattern]; s.Pattern != "" && !ok {
		r.pattern(s.Pattern, path.Child("pattern"))
	}
	for name, some := range map[string][]apiextensions.JSONSchemaProps{"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf} {
		for i := range some {
			r.schema(&some[i], path.Child(name).Index(i))
		}
	}
	r.schema(s.Not, path.Child("not"))
	for name, p := range s.Properties {
		r.schema(&p, path.Child("properties").Key(name))
	}
	if s.AdditionalProperties != nil {
		r.schema(s.AdditionalProperties.Schema, path.Child("additionalProperties"))
	}
	if s.Items != nil {
		r.schema(s.Items.Schema, path.Child("items"))
	}
}

func (r *refusing) pattern(pattern string, path *field.Path) {
	const instead = "use fewer or shorter ones, or rules (x-kubernetes-validations)"
	if len(pattern) > mostText {
		r.err = field.Forbidden(path, fmt.Sprintf("a pattern of %d bytes, more than %d: %s", len(pattern), mostText, instead))
		return
	}
	if len(r.known) >= MostPatterns {
		r.err = field.Forbidden(path, fmt.Sprintf("a schema has up to %d different patterns: %s", MostPatterns, instead))
		return
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return // upstream says so
	}
	if repeated(parsed) > MostInstructions {
		r.err = field.Forbidden(path, fmt.Sprintf("a pattern of more than %d instructions when its repetitions are written out: %s", MostInstructions, instead))
		return
	}
	n := instructions(pattern, r.known)
	if r.all += n; n > MostInstructions || r.all > MostOfAll {
		r.err = field.Forbidden(path, fmt.Sprintf("patterns of %d instructions, all of the schema of %d, more than %d and %d, when their repetitions are written out: %s", n, r.all, MostInstructions, MostOfAll, instead))
	}
}

// repeated is about how many instructions an expression has, before memory is taken for them.
func repeated(e *syntax.Regexp) (n int64) {
	n = 1
	for _, sub := range e.Sub {
		n += repeated(sub)
	}
	if e.Op == syntax.OpLiteral {
		n += int64(len(e.Rune))
	}
	if e.Op == syntax.OpRepeat {
		n *= int64(max(e.Min, e.Max, 1))
	}
	return n
}
