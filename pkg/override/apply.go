package override

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/json"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Apply is an object with its overrides: a new one, with parts of obj where nothing is
// changed. Of an error nothing is applied; it says which override it is about.
//
//	an operation       the field           then
//	add                is there            replaced; of a list, put before it
//	add                is not there        set, if what it would be in is there
//	replace, remove    is not there        error
//	test               is something else   error
//	any                may not be changed  error, see forbidden and fixed
func Apply(kind workload.Kind, obj map[string]any, overrides []placementv1alpha1.TargetOverride) (map[string]any, error) {
	out := map[string]any{}
	for name, value := range obj {
		out[name] = value
	}
	metadata := map[string]any{}
	was, _ := obj["metadata"].(map[string]any)
	for name, value := range was {
		metadata[name] = value
	}
	out["metadata"] = metadata
	for _, name := range []string{"labels", "annotations"} {
		if m, _ := metadata[name].(map[string]any); m == nil {
			metadata[name] = map[string]any{} // one is added without it
		}
	}
	for _, o := range overrides {
		if o.Problem != "" {
			return nil, fmt.Errorf("%s: %s", o.Name, o.Problem)
		}
		for i, operation := range o.Patch {
			if err := apply(out, operation); err != nil {
				return nil, fmt.Errorf("%s: patch[%d], %s %s: %w", o.Name, i, operation.Op, operation.Path, err)
			}
		}
		if err := fixed(kind, obj, out); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
	}
	metadata, _ = out["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		if m, _ := metadata[name].(map[string]any); len(m) == 0 {
			delete(metadata, name)
		}
	}
	return out, nil
}

func apply(obj map[string]any, o placementv1alpha1.PatchOperation) error {
	if problem := forbidden(o.Path); problem != "" { // it may be of before this was checked
		return errors.New(problem)
	}
	tokens, err := parse(o.Path)
	if err != nil {
		return err
	}
	value, err := valueOf(o)
	if err != nil {
		return err
	}
	if o.Op == placementv1alpha1.PatchRemove {
		value = nil
	} else if value == nil {
		return errors.New("it has no value")
	} else if key := systemKey(value, 0); key != "" {
		return errors.New(key)
	}
	if tokens[0] == "metadata" && o.Op != placementv1alpha1.PatchRemove {
		if _, text := value.(string); !text {
			return errors.New("the value of a label or annotation is a string")
		}
	}
	_, err = at(obj, tokens, o.Op, value)
	return err
}

// valueOf is the value of an operation, with numbers as objects have them.
func valueOf(o placementv1alpha1.PatchOperation) (any, error) {
	if o.Value == nil || len(o.Value.Raw) == 0 {
		return nil, nil
	}
	var value any
	if err := json.Unmarshal(o.Value.Raw, &value); err != nil {
		return nil, errors.New("it is no JSON value")
	}
	return value, nil
}

// at carries out an operation in a value; what is on the way is copied, and returned.
func at(in any, tokens []string, op placementv1alpha1.PatchOp, value any) (any, error) {
	switch v := in.(type) {
	case map[string]any:
		return v, inMap(v, tokens, op, value)
	case []any:
		return inList(v, tokens, op, value)
	}
	return nil, fmt.Errorf("there is nothing that could have %q", tokens[0])
}

// inMap changes m itself.
func inMap(m map[string]any, tokens []string, op placementv1alpha1.PatchOp, value any) error {
	name := tokens[0]
	has, there := m[name]
	if len(tokens) > 1 {
		if !there || has == nil {
			return fmt.Errorf("there is no %q", name)
		}
		changed, err := at(shallow(has), tokens[1:], op, value)
		if err == nil {
			m[name] = changed
		}
		return err
	}
	switch {
	case op == placementv1alpha1.PatchAdd:
		m[name] = value
	case !there:
		return fmt.Errorf("there is no %q", name)
	case op == placementv1alpha1.PatchReplace:
		m[name] = value
	case op == placementv1alpha1.PatchRemove:
		delete(m, name)
	default:
		return test(op, has, value)
	}
	return nil
}

// inList returns the list with the change.
func inList(items []any, tokens []string, op placementv1alpha1.PatchOp, value any) ([]any, error) {
	last := len(tokens) == 1
	if tokens[0] == "-" && last && op == placementv1alpha1.PatchAdd {
		return append(slices.Clone(items), value), nil
	}
	i, err := strconv.Atoi(tokens[0])
	switch {
	case err != nil || i < 0 || tokens[0] != strconv.Itoa(i):
		return nil, fmt.Errorf("%q is no place in a list", tokens[0])
	case i < len(items):
	case i > len(items) || !last || op != placementv1alpha1.PatchAdd:
		return nil, fmt.Errorf("the list has %d items", len(items))
	}
	if !last {
		changed, err := at(shallow(items[i]), tokens[1:], op, value)
		if err != nil {
			return nil, err
		}
		items = slices.Clone(items)
		items[i] = changed
		return items, nil
	}
	switch op {
	case placementv1alpha1.PatchAdd:
		return slices.Insert(slices.Clone(items), i, value), nil
	case placementv1alpha1.PatchRemove:
		return slices.Delete(slices.Clone(items), i, i+1), nil
	case placementv1alpha1.PatchReplace:
		items = slices.Clone(items)
		items[i] = value
		return items, nil
	}
	return items, test(op, items[i], value)
}

func test(op placementv1alpha1.PatchOp, has, value any) error {
	switch {
	case op != placementv1alpha1.PatchTest:
		return fmt.Errorf("no such operation; there are %v", operations)
	case !same(has, value):
		return errors.New("it is something else")
	}
	return nil
}

// same compares JSON values; numbers of hand-made objects may be of other types.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// shallow copies a map, of which an operation changes something.
func shallow(value any) any {
	m, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := make(map[string]any, len(m)+1)
	for name, e := range m {
		out[name] = e
	}
	return out
}
