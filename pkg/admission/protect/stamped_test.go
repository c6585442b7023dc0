package protect

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAStampIsNoChange(t *testing.T) {
	type m = map[string]any
	read := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: m{
			"apiVersion": "v1", "kind": "LimitRange",
			"metadata": m{"name": "l", "uid": "1", "resourceVersion": "10", "annotations": m{"kcp.io/cluster": "shop"}},
			"spec":     m{"limits": []any{m{"type": "Container"}}},
		}}
	}
	for _, c := range []struct {
		name   string
		change func(*unstructured.Unstructured)
		want   bool
	}{
		{"nothing", func(*unstructured.Unstructured) {}, true},
		{"targets, finalizer, managed fields", func(u *unstructured.Unstructured) {
			u.SetResourceVersion("11")
			u.SetAnnotations(map[string]string{"kcp.io/cluster": "shop", targets: `{"east":{}}`})
			u.SetFinalizers([]string{finalizer})
			_ = unstructured.SetNestedSlice(u.Object, []any{m{"manager": "atoll", "operation": "Update"}}, "metadata", "managedFields")
		}, true},
		{"another object of the name", func(u *unstructured.Unstructured) { u.SetUID("2") }, false},
		{"a label", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }, false},
		{"an annotation", func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"a": "b"}) }, false},
		{"a finalizer of a user", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a"}) }, false},
		{"the spec", func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, "x", "spec", "a") }, false},
		{"the status", func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, "x", "status", "a") }, false},
		{"that it is being deleted", func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
		}, false},
	} {
		then, now := read(), read()
		c.change(now)
		if got := Restamped(then, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
