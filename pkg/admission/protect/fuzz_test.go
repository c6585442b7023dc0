package protect

import (
	"encoding/json"
	"testing"
)

// FuzzManagedFields: what users send as managed fields is left without the system's keys, and
// else as it was.
func FuzzManagedFields(f *testing.F) {
	f.Add([]byte(`{"f:metadata":{"f:annotations":{".":{},"f:placement.atoll.dev/targets":{},"f:a":{}},"f:finalizers":{"v:\"placement.atoll.dev/copies\"":{}}}}`))
	f.Add([]byte(`{"f:metadata":{"f:labels":null,"f:annotations":[]},"f:spec":1}`))
	f.Add([]byte(`{"f:metadata":{"f:finalizers":{"v:":{},"v:1":{}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, changed := strip(data)
		if !changed {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%s becomes %s", data, out)
		}
		if again, changed := strip(out); changed {
			t.Errorf("%s becomes %s, and then %s", data, out, again)
		}
	})
}
