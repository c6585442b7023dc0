package metrics

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzAnswer: what is taken of an answer is bounded by what came, an answer that is read to its end
// begins with a JSON object, and what is used is a number that can be added up.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"kind":"PodMetricsList","items":[{"metadata":{"name":"a","namespace":"b"},"timestamp":"2026-01-02T03:04:05Z","window":"15s","containers":[{"name":"c","usage":{"cpu":"10m","memory":"1Mi"}}]}]}`))
	f.Add([]byte(`{"items":[{"usage":{"cpu":"9999999999999999999E","memory":"0.000000001n","swap":"1e9"}}],"items":[{}]}`))
	f.Add([]byte(`{"items":{},"items":[[]]}`))
	f.Add([]byte(`{"items":[{"window":1},`))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, sum := 0, corev1.ResourceList{}
		err := each(bytes.NewReader(data), func(i item) {
			items++
			for _, said := range append([]map[string]string{i.Usage}, usages(i)...) {
				used := usage(said)
				for name, q := range used {
					again, err := resource.ParseQuantity(q.String())
					if err != nil || q.Sign() < 0 || again.Cmp(q) != 0 {
						t.Errorf("%s %q is read as %s, and that as %s, %v", name, said[string(name)], q.String(), again.String(), err)
					}
				}
				add(sum, used)
			}
		})
		if items > len(data) {
			t.Errorf("%d items of %d bytes", items, len(data))
		}
		var object map[string]json.RawMessage
		if err == nil && json.NewDecoder(bytes.NewReader(data)).Decode(&object) != nil {
			t.Errorf("%q is no object, and was read", data)
		}
		for name, q := range sum {
			if q.Sign() < 0 {
				t.Errorf("the sum of %s is %s", name, q.String())
			}
		}
	})
}

func usages(i item) (all []map[string]string) {
	for _, c := range i.Containers {
		all = append(all, c.Usage)
	}
	return all
}
