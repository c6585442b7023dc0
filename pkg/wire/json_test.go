package wire

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// documents are what servers, and others, may say; some are no JSON.
var documents = []string{
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","generation":3},"spec":{"replicas":2,"ratio":0.5,"paused":false,"list":[1,"a",null]}}`,
	`{"kind":"Copy","apiVersion":"placement.atoll.dev/v1alpha1","metadata":{"name":"a\"b"}}` + "\n",
	`{"apiVersion":"v1","kind":"Pod"}`,
	`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]}`,
	`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`,
	`{"metadata":{"name":"last"},"kind":"Pod","apiVersion":"v1"}`,
	`{ "apiVersion": "v1", "kind": "Pod" }`,
	`{"apiVersion":"v1","kind":"P\u006fd"}`,
	`{"apiVersion":"v1","kind":""}`,
	`{"apiVersion":"","kind":"Pod"}`,
	`{"apiVersion":"a/b/c","kind":"Pod"}`,
	`{"apiVersion":"a/","kind":"Pod"}`,
	`{"kind":"Pod"}`,
	`{"apiVersion":"v1","kind":"Pod"},"more":1}`,
	`{"apiVersion":"v1","kind":"Pod"`,
	`{"apiVersion":"v1","kind":"Pod"}}`,
	`{"apiVersion":"v1","kind":"Pod" "metadata":{}}`,
	`{"apiVersion":"v1","kind":"Pod","n":1e400}`,
	`{"apiVersion":"v1","apiVersion":"v2","kind":"Pod"}`,
	`{"apiVersion":"v1"`, `{`, `[]`, `null`, `""`, ``,
}

func TestObjectsAreReadAsByTheStockSerializer(t *testing.T) {
	for _, document := range documents {
		t.Run(document, func(t *testing.T) { compareObjects(t, []byte(document)) })
	}
}

func TestEventsAreReadAsByTheStockSerializer(t *testing.T) {
	for _, event := range []string{
		`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}` + "\n",
		`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`,
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410}} `,
		`{"type":"ADDED", "object":{"kind":"Pod"}}`,
		`{"object":{"kind":"Pod"},"type":"ADDED"}`,
		`{"type":"ADD\u0045D","object":{"kind":"Pod"}}`,
		`{"type":"ADDED","object":null}`,
		`{"type":"ADDED"}`,
		`{}`, `[]`,
	} {
		t.Run(event, func(t *testing.T) {
			var got, want metav1.WatchEvent
			info := jsonInfo(t)
			_, gotKind, gotErr := events{info.StreamSerializer.Serializer}.Decode([]byte(event), nil, &got)
			_, wantKind, wantErr := info.StreamSerializer.Serializer.Decode([]byte(event), nil, &want)
			if (gotErr == nil) != (wantErr == nil) {
				t.Fatalf("got error %v, want %v", gotErr, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("event (-stock +ours):\n%s", diff)
			}
			if diff := cmp.Diff(wantKind, gotKind); wantErr == nil && diff != "" {
				t.Errorf("kind (-stock +ours):\n%s", diff)
			}
		})
	}
}

// An event with more than a type and an object is none of an API server's: it is not
// mistaken for one without.
func TestWhatFollowsTheObjectOfAnEventIsNotDropped(t *testing.T) {
	var event metav1.WatchEvent
	info := jsonInfo(t)
	if _, _, err := (events{info.StreamSerializer.Serializer}).Decode([]byte(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"},"type":"DELETED"}`), nil, &event); err != nil {
		return
	}
	if obj, _, err := (objects{info.Serializer}).Decode(event.Object.Raw, nil, nil); err == nil {
		t.Errorf("it is read as %s %v", event.Type, obj)
	}
}

func FuzzObjects(f *testing.F) {
	for _, document := range documents {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if repeats(data) {
			t.Skip("a field twice, which no encoder of an API server writes")
		}
		compareObjects(t, data)
	})
}

func compareObjects(t *testing.T, data []byte) {
	t.Helper()
	stock := jsonInfo(t).Serializer
	for _, into := range []func() runtime.Object{
		func() runtime.Object { return nil },
		func() runtime.Object { return &unstructured.Unstructured{} },
		func() runtime.Object { return &unstructured.UnstructuredList{} },
		func() runtime.Object { return &metav1.Status{} },
	} {
		got, gotKind, gotErr := objects{stock}.Decode(data, nil, into())
		want, wantKind, wantErr := stock.Decode(data, nil, into())
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("into %T: got error %v, want %v", into(), gotErr, wantErr)
		}
		if wantErr != nil {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("into %T (-stock +ours):\n%s", into(), diff)
		}
		if diff := cmp.Diff(wantKind, gotKind); diff != "" {
			t.Errorf("kind into %T (-stock +ours):\n%s", into(), diff)
		}
	}
}

// repeats says that version or kind are there more than once, in whatever case.
func repeats(data []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return false
	}
	var meta metav1.TypeMeta
	if json.Unmarshal(data, &meta) != nil {
		return false
	}
	gvk, ok := kindOf(data)
	return ok && meta.GroupVersionKind() != gvk
}

func jsonInfo(t *testing.T) runtime.SerializerInfo {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("the dynamic client reads no JSON")
	}
	return info
}
