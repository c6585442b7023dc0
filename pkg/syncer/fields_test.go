package syncer

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// kinds by name.
var kinds = func() map[string]workload.Kind {
	m := map[string]workload.Kind{}
	for _, k := range workload.Builtin().Kinds() {
		m[k.Kind] = k
	}
	return m
}()

// fieldsOf is the set of all fields of an object, with lists as a whole.
func fieldsOf(obj *unstructured.Unstructured) []byte {
	content := deepCopy(obj.Object).(map[string]any)
	metadata := field(content, "metadata")
	content["metadata"] = map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]}
	delete(content, "apiVersion")
	delete(content, "kind")
	b, err := json.Marshal(set(content))
	if err != nil {
		panic(err)
	}
	return b
}

func set(value any) map[string]any {
	out := map[string]any{}
	if m, ok := value.(map[string]any); ok {
		for k, v := range m {
			out["f:"+k] = set(v)
		}
	}
	return out
}

// The set that kube-apiserver v1.37 reports for this Deployment.
const recordedFields = `{
  "f:metadata":{"f:annotations":{"f:a":{}},"f:labels":{"f:app":{},"f:tier":{}}},
  "f:spec":{
    "f:replicas":{},
    "f:selector":{},
    "f:template":{
      "f:metadata":{"f:labels":{"f:app":{}}},
      "f:spec":{
        "f:dnsPolicy":{},
        "f:containers":{
          "k:{\"name\":\"web\"}":{
            ".":{},"f:image":{},"f:name":{},
            "f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},
            "f:resources":{}
          }
        }
      }
    }
  }
}`

const recordedObject = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: n, uid: u, labels: {app: web, tier: t}, annotations: {a: b}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      dnsPolicy: Default
      containers:
      - {name: web, image: i, resources: {}, ports: [{containerPort: 80}]}
`

func TestOwnershipOfFieldsShowsDrift(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(fields map[string]any)
		want bool
	}{
		{"as applied", func(map[string]any) {}, true},
		{"a label taken over", func(f map[string]any) { delete(field(field(f, "f:metadata"), "f:labels"), "f:app") }, false},
		{"the labels taken over", func(f map[string]any) { delete(field(f, "f:metadata"), "f:labels") }, false},
		{"the replicas taken over", func(f map[string]any) { delete(field(f, "f:spec"), "f:replicas") }, false},
		{"an image taken over", func(f map[string]any) {
			containers := field(field(field(field(f, "f:spec"), "f:template"), "f:spec"), "f:containers")
			delete(field(containers, `k:{"name":"web"}`), "f:image")
		}, false},
		{"the only container taken over", func(f map[string]any) {
			delete(field(field(field(f, "f:spec"), "f:template"), "f:spec"), "f:containers") // an empty set is left out
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(recordedFields), &fields); err != nil {
				t.Fatal(err)
			}
			before := Fingerprint(owning(t, fields))
			c.edit(fields)
			physical := owning(t, fields)
			if got := Owns(physical, parse(t, recordedObject)); got != c.want {
				t.Errorf("Owns = %v", got)
			}
			if same := Fingerprint(physical) == before; same != c.want {
				t.Errorf("the fingerprint is the same: %v", same)
			}
		})
	}
}

func owning(t *testing.T, fields map[string]any) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	obj := parse(t, recordedObject)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: "Update", APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)},
		{Manager: FieldManager, Operation: "Apply", APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))},
	})
	return obj
}

func TestWhoElseScalesACopyIsSeen(t *testing.T) {
	obj := owning(t, map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}})
	if scaledByOthers(kindOf(t, obj), obj) {
		t.Error("only we own the replicas")
	}
	obj.SetManagedFields(append(obj.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: "kube-controller-manager", Operation: "Update", APIVersion: "apps/v1", Subresource: "scale", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
	}))
	if !scaledByOthers(kindOf(t, obj), obj) {
		t.Error("the autoscaler owns them too")
	}
}
