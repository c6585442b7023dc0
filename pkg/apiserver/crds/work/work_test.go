package work

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type props = apiextensions.JSONSchemaProps

func items(s props) *props {
	return &props{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &s}}
}

func many(n int, value any) (out []any) {
	for range n {
		out = append(out, value)
	}
	return out
}

func patterns(n int) (out []props) {
	for i := range n {
		out = append(out, props{Pattern: fmt.Sprintf("^x%d$", i)})
	}
	return out
}

func TestStepsAreTheProductOfSchemaAndObject(t *testing.T) {
	t.Parallel()
	named := map[string]props{}
	for i := range 1000 {
		named[fmt.Sprint("p", i)] = props{Type: "string"}
	}
	var required []string
	var enum []apiextensions.JSON
	for range 1000 {
		enum = append(enum, "a")
	}
	for i := range 100 {
		required = append(required, fmt.Sprint("r", i))
	}
	text := strings.Repeat("a", 60_000)
	const ms = 100_000 // steps
	for name, c := range map[string]struct {
		schema      *props
		obj         any
		least, most int64
	}{
		"nothing is said":                   {nil, text, 0, 0},
		"another field":                     {&props{Properties: map[string]props{"a": {Pattern: "^(.?){1000}$"}}}, map[string]any{"b": text}, 1, 1000},
		"a string":                          {&props{Type: "string"}, text, 1, 1000},
		"a short pattern":                   {&props{Pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}, "name", 1, 1000},
		"a short pattern, for each byte":    {&props{Pattern: "^[a-z]+$"}, text, ms / 10, 2 * ms},
		"one that repeats":                  {&props{Pattern: "^(.?){1000}$"}, text, 1000 * ms, 2000 * ms},
		"in a branch":                       {&props{AnyOf: []props{{Pattern: "^(.?){1000}$"}}}, text, 1000 * ms, 2000 * ms},
		"in a branch of a branch":           {&props{Not: &props{OneOf: []props{{AllOf: []props{{Pattern: "^(.?){1000}$"}}}}}}, text, 1000 * ms, 2000 * ms},
		"in a branch, of items":             {&props{AnyOf: []props{*items(props{Pattern: "^(.?){1000}$"})}}, []any{text}, 1000 * ms, 2000 * ms},
		"thousands of branches":             {&props{AnyOf: patterns(5000)}, text, 1000 * ms, 20_000 * ms},
		"branches for each item":            {items(props{AnyOf: patterns(1000)}), many(20_000, "a"), 20_000 * ms, math.MaxInt64},
		"properties for each item":          {items(props{Properties: named}), many(20_000, map[string]any{}), 10_000 * ms, math.MaxInt64},
		"an enum for each item":             {items(props{Enum: enum}), many(20_000, "b"), 1000 * ms, math.MaxInt64},
		"missing properties, for each item": {items(props{Required: required}), many(20_000, map[string]any{}), 10_000 * ms, math.MaxInt64},
		"a missing property":                {&props{Required: []string{"a"}}, map[string]any{}, 1, 2000},
		"additional properties":             {&props{AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Schema: &props{Pattern: "^(.?){1000}$"}}}, map[string]any{"a": text}, 1000 * ms, 2000 * ms},
		"an ordinary long list":             {items(props{Type: "object", Properties: map[string]props{"name": {Type: "string", Pattern: "^[a-z]+$"}, "value": {Type: "string"}}, Required: []string{"name"}}), many(1000, map[string]any{"name": "abc", "value": "def"}), ms, 50 * ms},
	} {
		if got := Of(c.schema).Steps(c.obj, math.MaxInt64/2); got < c.least || got > c.most {
			t.Errorf("%s: %d steps, want %d to %d", name, got, c.least, c.most)
		}
	}
}

func TestCountingEndsWithTheMost(t *testing.T) {
	t.Parallel()
	s := Of(items(props{AnyOf: patterns(1000)}))
	if got := s.Steps(many(1_000_000, "a"), 1_000_000); got <= 1_000_000 || got > 2_000_000 {
		t.Errorf("of at most a million it counted %d", got)
	}
}

func TestPatternsOfASchemaAreBounded(t *testing.T) {
	t.Parallel()
	different := func(n int, of string) *props {
		s := &props{}
		for i := range n {
			s.AnyOf = append(s.AnyOf, props{Pattern: fmt.Sprintf("%s%03d", of, i)})
		}
		return s
	}
	for name, c := range map[string]struct {
		schema *props
		want   string
	}{
		"none":                       {&props{}, ""},
		"no schema":                  {nil, ""},
		"as many as there may be":    {different(MostPatterns, "a"), ""},
		"one more":                   {different(MostPatterns+1, "a"), "up to 250 different patterns"},
		"the same, often":            {&props{AnyOf: slices.Repeat([]props{{Pattern: "a"}}, 5000)}, ""},
		"one that is long":           {&props{Pattern: strings.Repeat("a", mostText+1)}, "bytes, more than 16384"},
		"one that repeats":           {items(props{Pattern: "^(.?){1000}$"}), ""},
		"one that repeats too much":  {items(props{Pattern: strings.Repeat("(.?){1000}", 20)}), "more than 20000 instructions"},
		"one that would take memory": {&props{Properties: map[string]props{"a": {Pattern: strings.Repeat(`\pL{1000}`, 1000)}}}, "spec.properties[a].pattern"},
		"many that repeat":           {different(60, "(.?){1000}"), "more than 20000 and 100000"},
		"one that is none":           {&props{Pattern: "("}, ""},
	} {
		err := Refused(c.schema, field.NewPath("spec"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// FuzzPatterns: what is not refused compiles to no more than may be, and to count the steps of an object
// ends with the most, or with one value more.
func FuzzPatterns(f *testing.F) {
	f.Add("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "(.?){1000}", `{"a":["b","c"],"d":{"e":null}}`)
	f.Add(strings.Repeat("(.?){1000}", 21), "", `"text"`)
	f.Add(`((\pL{10}){10}){10}`, "(", `[[[1,true]]]`)
	f.Add("(?i)(?:){2,}", `\Q{9}`, `{}`)
	f.Fuzz(func(t *testing.T, first, second, data string) {
		schema := &props{AnyOf: []props{{Pattern: first}, {Not: &props{Pattern: second}}}, Required: []string{"a"}}
		schema.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: &props{Pattern: first}}
		schema.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Schema: &props{Pattern: second}}
		if Refused(schema, field.NewPath("spec")) != nil {
			return
		}
		all := int64(0)
		for _, pattern := range slices.Compact([]string{first, second}) {
			n := instructions(pattern, map[string]int64{})
			if all += n; n > MostInstructions || all > MostOfAll {
				t.Errorf("%d instructions of %q", n, pattern)
			}
		}
		var obj any
		if json.Unmarshal([]byte(data), &obj) != nil {
			return
		}
		const most = 1000
		one := 10*perSchema + 2*perMissing + (all+1)*int64(len(data)+patternBytes)
		if steps := Of(schema).Steps(obj, most); steps <= 0 || steps > most+one {
			t.Errorf("%d steps, of at most %d and %d, for %q", steps, most, one, data)
		}
	})
}
