package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FieldManager is the name under which copies are applied.
const FieldManager = "atoll"

// digest is a hash of an object; equal objects have equal digests.
func digest(obj *unstructured.Unstructured) string {
	b, err := json.Marshal(obj.Object) // encoding/json sorts the keys of maps
	if err != nil {
		panic(err) // nothing that came from JSON can fail to become JSON
	}
	return hash(b)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:10])
}

// ownFields are those of our entry in the managed fields of a copy, and the version that
// they are of: the set of fields whose value is the one that we applied. Who changes a
// value takes its field out of the set, so the set tells drift without comparing values.
// They are read where they are: to decode the entries of all managers costs more than
// anything else that is asked of a copy.
func ownFields(physical *unstructured.Unstructured) (version string, fields map[string]any, ok bool) {
	metadata, _ := physical.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		e, _ := e.(map[string]any)
		text := func(name string) string { v, _ := e[name].(string); return v }
		if text("manager") != FieldManager || text("operation") != string(metav1.ManagedFieldsOperationApply) || text("subresource") != "" {
			continue
		}
		if fields, ok = e["fieldsV1"].(map[string]any); ok {
			return text("apiVersion"), fields, true
		}
	}
	return "", nil, false
}

// Fingerprint identifies what was applied to a copy, and the set of fields that
// we own on it. The one taken from the reply to an apply stays until somebody
// changes one of our fields.
func Fingerprint(physical *unstructured.Unstructured) string {
	applied := physical.GetAnnotations()[AppliedAnnotation]
	version, fields, ok := ownFields(physical)
	if !ok {
		return applied + " none"
	}
	b, err := json.Marshal(fields) // in the order of their names
	if err != nil {
		panic(err) // nothing that came from JSON can fail to become JSON
	}
	return applied + " " + hash(append([]byte(version+"\n"), b...))
}

// Owns says whether every field of desired is in the set of fields that we own
// on the copy. It needs no memory of the last apply, so it serves after a
// restart; where it errs, it errs towards one more apply.
func Owns(physical, desired *unstructured.Unstructured) bool {
	version, fields, ok := ownFields(physical)
	if !ok || version != desired.GetAPIVersion() {
		return false
	}
	for name, value := range desired.Object {
		switch name {
		case "apiVersion", "kind":
			continue
		case "metadata":
			metadata := value.(map[string]any)
			value = map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]}
		}
		if !ownsField(fields, name, value) {
			return false
		}
	}
	return true
}

func ownsField(fields map[string]any, name string, value any) bool {
	if value == nil {
		return true
	}
	below, ok := fields["f:"+name].(map[string]any)
	return ok && ownsValue(below, value)
}

func ownsValue(fields map[string]any, value any) bool {
	if len(fields) == 0 {
		return true // a leaf, or a list or map that is owned as a whole
	}
	switch v := value.(type) {
	case map[string]any:
		for name, e := range v {
			if !ownsField(fields, name, e) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !ownsItem(fields, item) {
				return false
			}
		}
	}
	return true
}

// ownsItem finds an item of a list by its key ("k:" and a JSON map) or its value
// ("v:" and JSON).
func ownsItem(fields map[string]any, item any) bool {
	m, isMap := item.(map[string]any)
	if !isMap {
		b, err := json.Marshal(item)
		_, ok := fields["v:"+string(b)]
		return err == nil && ok
	}
	for name, below := range fields {
		text, isKey := strings.CutPrefix(name, "k:")
		if !isKey {
			continue
		}
		var key map[string]any
		if json.Unmarshal([]byte(text), &key) != nil || !hasKey(m, key) {
			continue
		}
		b, _ := below.(map[string]any)
		if ownsValue(b, m) {
			return true
		}
	}
	return false
}

// hasKey says that item has the values of key; a field of the key that item
// lacks was defaulted.
func hasKey(item, key map[string]any) bool {
	for name, want := range key {
		have, ok := item[name]
		if !ok {
			continue
		}
		a, errA := json.Marshal(have)
		b, errB := json.Marshal(want)
		if errA != nil || errB != nil || string(a) != string(b) {
			return false
		}
	}
	return true
}
