package work

import (
	"regexp/syntax"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// What upstream's validation takes, in steps of some ten nanoseconds, measured: for each value each
// schema that is about it, each of its properties, each value of an enum and its bytes; for a required
// property that is missing; for each of those before it, as errors are compared with each other;
// for each instruction of a pattern and two bytes of a string; for each 32 bytes of the path
// to a value.
const (
	perSchema, perProperty, perEnum, perMissing, perFormer = 300, 70, 8, 500, 2
	enumBytes, patternBytes, pathBytes                     = 8, 2, 32
)

// Schema is what values cost by all schemas that are about the same path: that of the definition,
// and the branches below it. Nil is one that says nothing.
type Schema struct {
	schemas, each, instructions int64
	required                    []string
	properties                  map[string]*Schema
	additional, items           *Schema
}

// Of reads a schema.
func Of(s *apiextensions.JSONSchemaProps) *Schema {
	if s == nil {
		return nil
	}
	return of([]*apiextensions.JSONSchemaProps{s}, map[string]int64{})
}

func of(group []*apiextensions.JSONSchemaProps, known map[string]int64) *Schema {
	if len(group) == 0 {
		return nil
	}
	s := &Schema{}
	below := map[string][]*apiextensions.JSONSchemaProps{}
	var additional, items []*apiextensions.JSONSchemaProps
	for len(group) > 0 {
		p := group[0]
		group = append(group[1:], branches(p)...)
		s.schemas++
		s.each += perSchema + perProperty*int64(len(p.Properties)) + perEnum*int64(len(p.Enum))
		for _, value := range p.Enum {
			if text, ok := value.(string); ok {
				s.each += int64(len(text)) / enumBytes
			}
		}
		if p.Pattern != "" {
			s.instructions += instructions(p.Pattern, known)
		}
		s.required = append(s.required, p.Required...)
		for name, property := range p.Properties {
			below[name] = append(below[name], &property)
		}
		if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
			additional = append(additional, p.AdditionalProperties.Schema)
		}
		if p.Items != nil && p.Items.Schema != nil {
			items = append(items, p.Items.Schema)
		}
	}
	if len(below) > 0 {
		s.properties = make(map[string]*Schema, len(below))
		for name, p := range below {
			s.properties[name] = of(p, known)
		}
	}
	s.additional, s.items = of(additional, known), of(items, known)
	return s
}

// branches are the schemas about the same value as p.
func branches(p *apiextensions.JSONSchemaProps) (all []*apiextensions.JSONSchemaProps) {
	for _, some := range [][]apiextensions.JSONSchemaProps{p.AllOf, p.AnyOf, p.OneOf} {
		for i := range some {
			all = append(all, &some[i])
		}
	}
	if p.Not != nil {
		all = append(all, p.Not)
	}
	return all
}

// instructions is how long a pattern is when it is compiled. One that does not compile matches nothing.
func instructions(pattern string, known map[string]int64) int64 {
	if n, ok := known[pattern]; ok {
		return n
	}
	n := int64(1)
	if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
		if compiled, err := syntax.Compile(parsed.Simplify()); err == nil {
			n = int64(len(compiled.Inst))
		}
	}
	known[pattern] = n
	return n
}

// Steps is what it takes at most to validate obj, or anything above most if it is more.
//
//	of each value       the schemas about it, with their properties and enums; the path to it
//	of each string      the instructions of the patterns about it, for each two bytes
//	of what is missing  each error, and its comparison with those before
func (s *Schema) Steps(obj any, most int64) int64 {
	w := walk{most: most}
	w.value(s, obj, 0)
	return w.steps
}

type walk struct{ steps, missing, most int64 }

func (w *walk) value(s *Schema, v any, path int64) {
	if s == nil || w.steps > w.most {
		return
	}
	w.steps += s.each + s.schemas*path/pathBytes
	switch v := v.(type) {
	case string:
		w.steps += s.instructions * int64(len(v)) / patternBytes
	case []any:
		for _, item := range v {
			w.value(s.items, item, path+4)
		}
	case map[string]any:
		for _, name := range s.required {
			if _, ok := v[name]; !ok {
				w.missing++
				w.steps += perMissing + perFormer*w.missing
			}
			if w.steps > w.most {
				return
			}
		}
		for name, value := range v {
			w.value(s.properties[name], value, path+int64(len(name))+1)
			w.value(s.additional, value, path+int64(len(name))+1)
		}
	}
}
