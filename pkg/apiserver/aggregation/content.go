package aggregation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apicontent "k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// pageSize is how many objects one request lists, maxPage how much of the answer
	// is read: more than the largest object that Kubernetes stores.
	pageSize = 100
	maxPage  = 2 << 20
	// What is reported of a namespace becomes a part of an object, whatever the servers
	// say: so many resources, finalizers of each, and characters of each text.
	maxReported   = 20
	maxFinalizers = 5
	maxText       = 300
	// maxToken bounds what a server has us send back to it.
	maxToken = 4 << 10
)

// target is a resource whose objects go with their namespace.
type target struct {
	schema.GroupVersionResource
	// collection and list say what the server does beside deleting one object.
	collection, list bool
}

// targets are the resources of a version that upstream's controller would empty:
//
//	namespaced  delete  deletecollection  list  emptied by
//	no          any     any               any   nothing: it has none
//	yes         no      any               any   nothing: it cannot be
//	yes         yes     yes               yes   one request, and a look at what is left
//	yes         yes     no                yes   a request for each object, and a look
//	yes         yes     yes               no    one request; what is left is not known
//	yes         yes     no                no    nothing: nobody knows what is there
func targets(gv schema.GroupVersion, resources []apidiscoveryv2.APIResourceDiscovery) []target {
	var out []target
	for _, r := range resources {
		t := target{
			GroupVersionResource: gv.WithResource(r.Resource),
			collection:           slices.Contains(r.Verbs, "deletecollection"), list: slices.Contains(r.Verbs, "list"),
		}
		if r.Scope != apidiscoveryv2.ScopeNamespace || !slices.Contains(r.Verbs, "delete") || !t.collection && !t.list {
			continue
		}
		if len(validation.IsDNS1123Subdomain(r.Resource)) > 0 {
			continue // no path that leads to a resource
		}
		out = append(out, t)
	}
	return out
}

// path is where the objects of t in a namespace are.
func (t target) path(namespace string) string {
	return "/apis/" + t.Group + "/" + t.Version + "/namespaces/" + namespace + "/" + t.Resource
}

// page is what is read of a list.
type page struct {
	items []metav1.PartialObjectMetadata
	next  string
}

// readPage reads a list as it comes and keeps little of it. A server may ignore
// how many objects were asked for: those that were read then are the page.
func readPage(body io.Reader) (out page, err error) {
	limited := &io.LimitedReader{R: body, N: maxPage}
	decoder := json.NewDecoder(limited)
	defer func() {
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		switch {
		case err == nil:
		case len(out.items) > 0:
			out.next, err = "", nil
		case limited.N <= 0:
			err = errTooLarge
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax), errors.As(err, &kind):
			err = errNoList
		}
	}()
	token, err := decoder.Token()
	if err != nil {
		return out, err
	}
	if token != json.Delim('{') {
		return out, errNoList
	}
	listed := false
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return out, err
		}
		switch key {
		case "metadata":
			var meta metav1.ListMeta
			if err := decoder.Decode(&meta); err != nil {
				return out, err
			}
			out.next = meta.Continue
		case "items":
			if whole, err := out.readItems(decoder); err != nil || !whole {
				return out, err
			}
			listed = true
		default:
			var skipped json.RawMessage
			if err := decoder.Decode(&skipped); err != nil {
				return out, err
			}
		}
	}
	if _, err := decoder.Token(); err != nil {
		return out, err
	}
	if !listed {
		return out, errNoList
	}
	if len(out.next) > maxToken {
		out.next = ""
	}
	return out, nil
}

// readItems reports whether it has read all of them.
func (p *page) readItems(decoder *json.Decoder) (whole bool, err error) {
	token, err := decoder.Token()
	if err != nil || token == nil { // null
		return true, err
	}
	if token != json.Delim('[') {
		return false, errNoList
	}
	for decoder.More() {
		if len(p.items) == pageSize {
			return false, nil
		}
		var item struct {
			Metadata struct {
				Name              string       `json:"name"`
				UID               string       `json:"uid"`
				DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
				Finalizers        []string     `json:"finalizers"`
			} `json:"metadata"`
		}
		if err := decoder.Decode(&item); err != nil {
			return false, err
		}
		obj := metav1.PartialObjectMetadata{}
		obj.Name, obj.DeletionTimestamp, obj.Finalizers = item.Metadata.Name, item.Metadata.DeletionTimestamp, item.Metadata.Finalizers
		obj.UID = types.UID(item.Metadata.UID)
		p.items = append(p.items, obj)
	}
	_, err = decoder.Token()
	return true, err
}

// swept is what a sweep of a namespace has left, and what has failed.
type swept struct {
	left   map[schema.GroupVersionResource][]metav1.PartialObjectMetadata
	failed map[schema.GroupVersionResource]error
}

// leave adds the objects that are still there: no more of them than is reported to
// people.
func (s *swept) leave(gvr schema.GroupVersionResource, items []metav1.PartialObjectMetadata) {
	if len(items) == 0 || len(s.left)+len(s.failed) >= maxReported {
		return // those that are there hold the namespace as well
	}
	if s.left == nil {
		s.left = map[schema.GroupVersionResource][]metav1.PartialObjectMetadata{}
	}
	var known []string
	reported := make([]metav1.PartialObjectMetadata, len(items))
	for i, item := range items {
		for _, f := range item.Finalizers {
			if f = cut(f); !slices.Contains(known, f) {
				if len(known) == maxFinalizers {
					continue
				}
				known = append(known, f)
			}
			if !slices.Contains(reported[i].Finalizers, f) {
				reported[i].Finalizers = append(reported[i].Finalizers, f)
			}
		}
	}
	s.left[gvr] = reported
}

func (s *swept) fail(gvr schema.GroupVersionResource, err error) {
	if len(s.left)+len(s.failed) >= maxReported {
		return
	}
	if s.failed == nil {
		s.failed = map[schema.GroupVersionResource]error{}
	}
	s.failed[gvr] = fmt.Errorf("%s: %s", gvr.GroupResource(), cut(err.Error()))
}

// cut makes a text of a server short enough and one that can be stored.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "?")
}

// refusal is what a server says when it does not do what it was asked for.
func refusal(method string, code int, body []byte) error {
	message := string(bytes.TrimSpace(body))
	if status, ok := decode[metav1.Status](body); ok && status.Message != "" {
		message = status.Message
	}
	return fmt.Errorf("%s is answered %d: %s", method, code, cut(message))
}

var errNoList = errors.New("the answer is no list")

// segment says whether a name of a server's choice is one step of a path.
func segment(name string) bool {
	return name != "" && len(name) <= validation.DNS1123SubdomainMaxLength && len(apicontent.IsPathSegmentName(name)) == 0
}
