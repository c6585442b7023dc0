package protect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// marks are parts of every system key as it stands in managed fields.
var marks = [][]byte{[]byte("atoll.dev/"), []byte("kcp.io/cluster")}

// disown takes the system's keys out of the managed fields. Who sends an object
// back as it was read, annotations and all, would else own them, and would
// meet conflicts or appear to remove them later.
func disown(obj metav1.Object) {
	var entries []metav1.ManagedFieldsEntry
	for i, e := range obj.GetManagedFields() {
		if e.FieldsV1 == nil {
			continue
		}
		raw := e.FieldsV1.GetRawBytes()
		if !slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Contains(raw, m) }) {
			continue
		}
		stripped, ok := strip(raw)
		if !ok {
			continue
		}
		if entries == nil {
			entries = slices.Clone(obj.GetManagedFields())
		}
		entries[i].FieldsV1 = &metav1.FieldsV1{}
		entries[i].FieldsV1.SetRawBytes(stripped)
	}
	if entries != nil {
		obj.SetManagedFields(entries)
	}
}

// fieldSet is one level of the JSON of managed fields.
type fieldSet map[string]json.RawMessage

// strip removes the system's keys from one set of managed fields; ok is false
// if there were none or the set cannot be read.
func strip(raw []byte) (out []byte, ok bool) {
	var all, metadata fieldSet
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(all["f:metadata"], &metadata) != nil {
		return nil, false
	}
	changed := false
	for _, field := range []string{"f:labels", "f:annotations", "f:finalizers"} {
		var keys fieldSet
		if json.Unmarshal(metadata[field], &keys) != nil {
			continue
		}
		before := len(keys)
		for key := range keys {
			if placementv1alpha1.IsSystemKey(userKey(key)) {
				delete(keys, key)
			}
		}
		if len(keys) == before {
			continue
		}
		changed = true
		if metadata.set(field, keys); len(keys) == 0 {
			delete(metadata, field)
		}
	}
	if !changed {
		return nil, false
	}
	if all.set("f:metadata", metadata); len(metadata) == 0 {
		delete(all, "f:metadata")
	}
	out, err := json.Marshal(all)
	return out, err == nil
}

// userKey is the key or finalizer that an element of a set means:
// "f:<key>" in a map, `v:"<value>"` in a list of values.
func userKey(element string) string {
	if key, ok := strings.CutPrefix(element, "f:"); ok {
		return key
	}
	var value string
	if v, ok := strings.CutPrefix(element, "v:"); ok && json.Unmarshal([]byte(v), &value) == nil {
		return value
	}
	return ""
}

func (s fieldSet) set(key string, value fieldSet) {
	raw, err := json.Marshal(value)
	if err == nil {
		s[key] = raw
	}
}
