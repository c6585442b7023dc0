package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// layout says where a version of OpenAPI has what is merged: paths, schemas, parameters.
type layout struct{ sets []set }

// set is a collection of named items: where it is in JSON, and in protobuf.
type set struct {
	keys  []string
	path  []protowire.Number
	field protowire.Number // of an item, whose own field 1 is its name
}

var (
	layoutV2 = layout{sets: []set{
		{[]string{"paths"}, []protowire.Number{8}, 2},
		{[]string{"definitions"}, []protowire.Number{9}, 1},
		{[]string{"parameters"}, []protowire.Number{10}, 1},
	}}
	layoutV3 = layout{sets: []set{
		{[]string{"paths"}, []protowire.Number{4}, 1},
		{[]string{"components", "schemas"}, []protowire.Number{5, 1}, 1},
	}}
)

// rendered is a document, or the part of one, as bytes that can be merged with those of
// others without being parsed.
type rendered struct {
	// rest is what is in no set: of a merged document, that of the first part.
	rest []byte
	sets [][]item
	// err says why there is nothing, if the schema cannot be made.
	err error
}

// item has its name, for merging, and everything that is written of it.
type item struct {
	name string
	body []byte
}

// overhead is what an item takes beside its bytes.
const overhead = 64

// failure is why there is nothing of r, which may be nil.
func (r *rendered) failure() error {
	if r == nil {
		return nil
	}
	return r.err
}

// merge has all items of parts, by name; of several with one name the first.
func merge(parts []*rendered) *rendered {
	if len(parts) == 1 {
		return parts[0]
	}
	merged := &rendered{rest: parts[0].rest, sets: make([][]item, len(parts[0].sets))}
	for n := range merged.sets {
		known := map[string]bool{}
		var all []item
		for _, p := range parts {
			for _, i := range p.sets[n] {
				if !known[i.name] {
					known[i.name] = true
					all = append(all, i)
				}
			}
		}
		slices.SortFunc(all, func(a, b item) int { return strings.Compare(a.name, b.name) })
		merged.sets[n] = all
	}
	return merged
}

// encoding is how documents are written.
type encoding struct {
	name string // of the media type, behind "application/"
	kind string // json or protobuf, of which several names are known
	join func(layout, *rendered) [][]byte
}

var encodingJSON = encoding{name: "json", kind: "json", join: joinJSON}

// splitJSON reads a document no deeper than its items.
func splitJSON(l layout, data []byte) (*rendered, error) {
	r := &rendered{sets: make([][]item, len(l.sets))}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	for n, s := range l.sets {
		within := top
		for depth, key := range s.keys {
			inner := map[string]json.RawMessage{}
			if raw, ok := within[key]; ok {
				if err := json.Unmarshal(raw, &inner); err != nil {
					return nil, fmt.Errorf("reading %s of a document: %w", strings.Join(s.keys[:depth+1], "."), err)
				}
			}
			if depth+1 < len(s.keys) && (len(inner) > 1 || len(inner) == 1 && inner[s.keys[depth+1]] == nil) {
				return nil, fmt.Errorf("a document has more in %s than %s", key, s.keys[depth+1])
			}
			within = inner
		}
		delete(top, s.keys[0])
		r.sets[n] = make([]item, 0, len(within))
		for _, name := range sortedKeys(within) {
			r.sets[n] = append(r.sets[n], item{name, slices.Concat(quoted(name), []byte{':'}, within[name])})
		}
	}
	for i, key := range sortedKeys(top) {
		if i > 0 {
			r.rest = append(r.rest, ',')
		}
		r.rest = slices.Concat(r.rest, quoted(key), []byte{':'}, top[key])
	}
	return r, nil
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always can
		return []byte(`""`)
	}
	return b
}

// joinJSON is the inverse of splitJSON.
func joinJSON(l layout, r *rendered) [][]byte {
	out := [][]byte{[]byte("{"), r.rest}
	comma := len(r.rest) > 0
	for n, s := range l.sets {
		begin := ""
		if comma {
			begin = ","
		}
		for _, key := range s.keys {
			begin += string(quoted(key)) + ":{"
		}
		out, comma = append(out, []byte(begin)), true
		for i, it := range r.sets[n] {
			if i > 0 {
				out = append(out, []byte{','})
			}
			out = append(out, it.body)
		}
		out = append(out, []byte(strings.Repeat("}", len(s.keys))))
	}
	return append(out, []byte("}"))
}

// protobufEncoding is that of clients which know gnostic's messages.
func protobufEncoding(name string) encoding {
	return encoding{name: name, kind: "protobuf", join: joinProtobuf}
}

var errWire = errors.New("a document is no protobuf")

// splitProtobuf reads a document no deeper than the names of its items.
func splitProtobuf(l layout, data []byte) (*rendered, error) {
	r := &rendered{sets: make([][]item, len(l.sets))}
	err := eachField(data, func(number protowire.Number, whole, value []byte) error {
		for n, s := range l.sets {
			if number == s.path[0] {
				return r.splitSet(n, s, s.path[1:], value)
			}
		}
		r.rest = append(r.rest, whole...)
		return nil
	})
	return r, err
}

// splitSet finds the items of set n in a message, along path.
func (r *rendered) splitSet(n int, s set, path []protowire.Number, data []byte) error {
	return eachField(data, func(number protowire.Number, whole, value []byte) error {
		switch {
		case len(path) > 0 && number == path[0]:
			return r.splitSet(n, s, path[1:], value)
		case len(path) == 0 && number == s.field:
			name := ""
			err := eachField(value, func(number protowire.Number, _, value []byte) error {
				if number == 1 {
					name = string(value)
				}
				return nil
			})
			r.sets[n] = append(r.sets[n], item{name, slices.Clone(whole)})
			return err
		default:
			return fmt.Errorf("%w that can be merged: field %d beside %s", errWire, number, strings.Join(s.keys, "."))
		}
	})
}

// eachField calls f with each field of a message: all of it, and its value if that has a length.
func eachField(data []byte, f func(number protowire.Number, whole, value []byte) error) error {
	for len(data) > 0 {
		number, kind, head := protowire.ConsumeTag(data)
		if head < 0 {
			return errWire
		}
		size := protowire.ConsumeFieldValue(number, kind, data[head:])
		if size < 0 {
			return errWire
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(data[head:])
		}
		if err := f(number, data[:head+size], value); err != nil {
			return err
		}
		data = data[head+size:]
	}
	return nil
}

// joinProtobuf is the inverse of splitProtobuf.
func joinProtobuf(l layout, r *rendered) [][]byte {
	out := [][]byte{r.rest}
	for n, s := range l.sets {
		size := 0
		for _, it := range r.sets[n] {
			size += len(it.body)
		}
		var head []byte
		for _, number := range slices.Backward(s.path) {
			tag := protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.BytesType), uint64(size+len(head)))
			head = append(tag, head...)
		}
		out = append(out, head)
		for _, it := range r.sets[n] {
			out = append(out, it.body)
		}
	}
	return out
}
