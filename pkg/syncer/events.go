package syncer

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Involved is what an event below is about.
func Involved(event *unstructured.Unstructured) (namespace string, uid types.UID) {
	ref := field(event.Object, "involvedObject")
	namespace, _ = ref["namespace"].(string)
	text, _ := ref["uid"].(string)
	return namespace, types.UID(text)
}

// Names are what the words of a physical cluster mean in the logical cluster of an
// event.
type Names struct {
	// Namespace finds the logical namespace with a physical name; it knows those of
	// the logical cluster of the event, and no others.
	Namespace func(physical string) (logical string, ok bool)
	// Owner finds the logical object that mirrors the one with a physical UID.
	Owner func(types.UID) (Owner, bool)
	// Node is the Node of the object above; empty if it has the node that it has
	// below.
	Node string
}

// EventUp turns an event of the physical cluster into one of the logical
// namespace, about the object that mirrors the one that it is about.
//
//	part                      becomes
//	metadata                  name, logical namespace, keys of users, the UID below
//	involvedObject            the object above, its fieldPath as it is
//	related                   the object above; without one it is left out
//	message                   physical namespaces, as whole words, become logical ones;
//	                          <namespace>/<object> has the name that the object has above;
//	                          "assigned ... to <node>" has its Node above
//	source, reportingInstance the node, if it is another one above
func EventUp(event *unstructured.Unstructured, namespace string, about Owner, names Names) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: deepCopy(event.Object).(map[string]any)}
	annotations := userKeys(out.GetAnnotations())
	out.Object["metadata"] = map[string]any{"name": event.GetName(), "namespace": namespace}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[placementv1alpha1.UIDAnnotation] = string(event.GetUID())
	out.SetAnnotations(annotations)
	ref := field(out.Object, "involvedObject")
	before, _ := ref["name"].(string)
	name(ref, namespace, about)
	if related := field(out.Object, "related"); related != nil && !names.relate(related) {
		delete(out.Object, "related") // names an object of the physical cluster
	}
	if message, ok := out.Object["message"].(string); ok {
		message = names.message(message)
		if about.Name != before {
			message = replaceWord(message, namespace+"/"+before, namespace+"/"+about.Name)
		}
		out.Object["message"] = message
	}
	names.node(out.Object)
	return out
}

// name makes a reference name an object above.
func name(ref map[string]any, namespace string, is Owner) {
	ref["namespace"], ref["name"], ref["uid"] = namespace, is.Name, string(is.UID)
	delete(ref, "resourceVersion")
}

// relate says whether the object that a reference names is above, too.
func (n Names) relate(ref map[string]any) bool {
	uid, _ := ref["uid"].(string)
	physical, _ := ref["namespace"].(string)
	if uid == "" || n.Owner == nil || n.Namespace == nil {
		return false
	}
	namespace, known := n.Namespace(physical)
	is, stands := n.Owner(types.UID(uid))
	if known && stands {
		name(ref, namespace, is)
	}
	return known && stands
}

// message replaces the physical namespaces in a text.
func (n Names) message(text string) string {
	if n.Namespace == nil {
		return text
	}
	var out strings.Builder
	for start := 0; start < len(text); {
		end := start
		for end < len(text) && isOfWord(text[end]) == isOfWord(text[start]) {
			end++
		}
		word := text[start:end]
		if logical, ok := n.Namespace(word); ok {
			word = logical
		}
		out.WriteString(word)
		start = end
	}
	return out.String()
}

// node replaces the node of the physical cluster where it is another one above.
func (n Names) node(event map[string]any) {
	if n.Node == "" {
		return
	}
	const assigned = "Successfully assigned "
	if message, _ := event["message"].(string); event["reason"] == "Scheduled" && strings.HasPrefix(message, assigned) {
		if at := strings.LastIndex(message, " to "); at >= 0 {
			event["message"] = message[:at] + " to " + n.Node
		}
	}
	if source := field(event, "source"); source["host"] != nil {
		if event["reportingInstance"] == source["host"] {
			event["reportingInstance"] = n.Node
		}
		source["host"] = n.Node
	}
}

// replaceWord replaces what is a whole word, and not a part of a longer one.
func replaceWord(text, word, by string) string {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return text
		}
		start := from + at
		end := start + len(word)
		if (start > 0 && isOfWord(text[start-1])) || (end < len(text) && (isOfWord(text[end]) || text[end] == '.')) {
			from = end
			continue
		}
		text = text[:start] + by + text[end:]
		from = start + len(by)
	}
}

// isOfWord: the characters of names of namespaces, and those that make a word
// another one.
func isOfWord(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}
