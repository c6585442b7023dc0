// Package statusrule evaluates what an admin declares about the status of a kind: a CEL
// expression over an object and what its copies say, whose value, a map, has the fields of the
// status that are not simply merged.
//
// Invariant: a rule costs no more than Budget for one evaluation, whatever it is given, and
// sees nothing but its variables.
//
// It does no I/O. Read next: Compile, Rule.Evaluate, docs/decisions/0051.
package statusrule

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// Budget is what one evaluation may cost, in units of CEL.
	Budget = 1_000_000
	// MaxLength bounds the text of a rule.
	MaxLength = 4096
	// maxDepth and maxItems bound its value.
	maxDepth, maxItems = 16, 4096
)

// Variables of a rule.
const (
	// self is the object.
	self = "self"
	// status is what the copies say, merged without the rule.
	status = "status"
	// copies are the targets that have said something: a list of maps with physicalCluster and
	// status.
	copies = "copies"
)

// Rule is a compiled rule.
type Rule struct{ program cel.Program }

// Copy is what one target says.
type Copy struct {
	PhysicalCluster string
	Status          map[string]any
}

// Compile reads a rule. An error says what is wrong with the text.
func Compile(text string) (*Rule, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("a rule has at most %d characters", MaxLength)
	}
	env, err := cel.NewEnv(
		cel.Variable(self, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(status, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(copies, cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
	)
	if err != nil {
		return nil, fmt.Errorf("making the environment of rules: %w", err)
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if kind := ast.OutputType().Kind(); kind != types.MapKind && kind != types.DynKind {
		return nil, fmt.Errorf("the value is a %s, and must be a map with fields of the status", ast.OutputType())
	}
	program, err := env.Program(ast, cel.CostLimit(Budget), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, fmt.Errorf("making the rule ready: %w", err)
	}
	return &Rule{program}, nil
}

// Evaluate returns the fields of the status that the rule decides.
func (r *Rule) Evaluate(object, merged map[string]any, of []Copy) (map[string]any, error) {
	list := make([]any, 0, len(of))
	for _, c := range of {
		list = append(list, map[string]any{"physicalCluster": c.PhysicalCluster, "status": c.Status})
	}
	value, _, err := r.program.Eval(map[string]any{self: object, status: merged, copies: list})
	if err != nil {
		return nil, err
	}
	left := maxItems
	out, err := native(value, 0, &left)
	if err != nil {
		return nil, err
	}
	fields, ok := out.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the value is a %s, and must be a map with fields of the status", value.Type().TypeName())
	}
	return fields, nil
}

var errTooLarge = errors.New("the value is too large or too deep")

// native is a value as JSON has it.
func native(value ref.Val, depth int, left *int) (any, error) {
	if *left--; depth > maxDepth || *left < 0 {
		return nil, errTooLarge
	}
	switch v := value.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), nil
	case types.Null:
		return nil, nil
	case traits.Mapper:
		return nativeMap(v, depth, left)
	case traits.Lister:
		out := []any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			item, err := native(i.Next(), depth+1, left)
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
		return out, nil
	}
	return nil, fmt.Errorf("a status has no %s", value.Type().TypeName())
}

func nativeMap(m traits.Mapper, depth int, left *int) (any, error) {
	out := map[string]any{}
	for i := m.Iterator(); i.HasNext() == types.True; {
		key := i.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the names of fields are text, not %s", key.Type().TypeName())
		}
		item, err := native(m.Get(key), depth+1, left)
		if err != nil {
			return nil, err
		}
		out[string(name)] = item
	}
	return out, nil
}
