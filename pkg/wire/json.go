package wire

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objects reads unstructured objects.
type objects struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (o objects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	u, unstructuredIsWanted := into.(*unstructured.Unstructured)
	gvk, ok := kindOf(data)
	if !ok || into != nil && !unstructuredIsWanted || into == nil && types.Recognizes(gvk) {
		return o.Serializer.Decode(data, defaults, into)
	}
	if u == nil {
		u = &unstructured.Unstructured{}
	}
	return unstructured.UnstructuredJSONScheme.Decode(data, nil, u)
}

// types are those that the stock serializer makes where nobody says what to make, instead
// of unstructured objects: a Status among them.
var types = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// kindOf is the kind of the object in data, if that begins with version and kind, in
// either order and without spaces, as encoders of API servers write it.
func kindOf(data []byte) (gvk schema.GroupVersionKind, ok bool) {
	var version, kind string
	rest, ok := bytes.CutPrefix(data, []byte(`{`))
	for range 2 {
		switch {
		case !ok:
			return gvk, false
		case version == "" && bytes.HasPrefix(rest, []byte(`"apiVersion":"`)):
			version, rest, ok = text(rest[len(`"apiVersion":"`):])
		case kind == "" && bytes.HasPrefix(rest, []byte(`"kind":"`)):
			kind, rest, ok = text(rest[len(`"kind":"`):])
		default:
			return gvk, false
		}
		rest, _ = bytes.CutPrefix(rest, []byte(`,`))
	}
	gv, err := schema.ParseGroupVersion(version)
	return gv.WithKind(kind), ok && err == nil && gv.Version != "" && kind != ""
}

// text is the string that data is within, if it is a plain one, and what follows it.
func text(data []byte) (s string, rest []byte, ok bool) {
	end := bytes.IndexAny(data, `"\`)
	if end < 0 || data[end] != '"' {
		return "", nil, false
	}
	return string(data[:end]), data[end+1:], true
}

// events reads events of watches.
type events struct{ runtime.Serializer }

// eventBegins and eventObject are around the type of an event.
var eventBegins, eventObject = []byte(`{"type":"`), []byte(`,"object":`)

// Decode implements runtime.Decoder. An event that is read into a WatchEvent shares
// data, and is valid until that changes: client-go decodes its object at once.
func (e events) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok {
		if kind, object, ok := split(data); ok {
			event.Type, event.Object.Raw = kind, object
			gvk := schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}
			return event, &gvk, nil
		}
	}
	return e.Serializer.Decode(data, defaults, into)
}

// split is the type and the object of an event, which is one value of JSON, as
// encoders of API servers write it. Were there anything behind the object,
// the object would not be valid.
func split(data []byte) (kind string, object []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, eventBegins)
	if !ok {
		return "", nil, false
	}
	kind, rest, ok = text(rest)
	if !ok {
		return "", nil, false
	}
	rest, ok = bytes.CutPrefix(rest, eventObject)
	if !ok {
		return "", nil, false
	}
	object, ok = bytes.CutSuffix(bytes.TrimRight(rest, " \t\r\n"), []byte(`}`))
	return kind, object, ok && bytes.HasPrefix(object, []byte(`{`))
}
