package syncer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// PodAbove is a pod that a controller below is about to make, as it would be made in a logical
// namespace; owner finds what mirrors its owners.
func PodAbove(pod workload.Kind, made *unstructured.Unstructured, namespace string, owner func(types.UID) (Owner, bool)) *unstructured.Unstructured {
	s := Observation{Kind: pod, Physical: made, Namespace: namespace, Owner: owner}
	refs, _, _ := s.owners()
	above := s.desired(refs)
	delete(above.Object, "status")
	return above
}

// decidedBelow are the fields of a pod that the physical cluster has decided by the template of
// its owner: by when its logical cluster is asked it is too late to change them.
var decidedBelow = []string{
	"nodeName", "overhead", "preemptionPolicy", "priority", "priorityClassName", "runtimeClassName", "serviceAccount", "serviceAccountName",
}

// maxItems bounds the lists of a pod that was changed, all together. Lists are merged by names
// that are looked for one by one, which takes a second for some thousand items and an hour for
// as many as fit into a pod; and the syncer is that of all logical clusters.
const maxItems = 2000

// Admission is a pod that a logical cluster admitted.
type Admission struct {
	// Pod is the kind of pods.
	Pod workload.Kind
	// Made is the pod as the controller below makes it. Before and After are the pod as it
	// would be made in the logical cluster, before its admission and after it.
	Made, Before, After *unstructured.Unstructured
	// Placing is that of the object for which it is made. What the account, the way to the
	// server and the nameserver are, Made says.
	Placing Placing
}

// Admitted is the pod that is made below: Made with the difference between Before and After.
// Both go the way down that templates go, through the same table, so that nothing comes with a pod
// that could not have come with its template. With findings that refuse something no pod may
// be made.
//
//	the admission above changes                    then
//	labels, annotations                            so does the pod; keys of the system do not
//	what is decided (see decidedBelow)             refused
//	a field, container or volume, to something
//	that does not go down from a template either   refused, or stripped or mapped as there
//	a token that the template does not name        refused: nobody has made its Secret
//	other fields of the spec                       so does the pod
//	name, namespace, owners, finalizers            nothing: they are of the physical cluster
//	anything, of a pod with more than maxItems     refused
func (a Admission) Admitted() (*unstructured.Unstructured, []boundary.Finding, error) {
	a.Placing.Account, a.Placing.Server = made(a.Pod, a.Made.Object, nil, Server{})
	was, _ := askedOf(anyMap(a.Made.GetAnnotations()))
	a.Placing.Nameserver = Nameserver{Address: was.Nameserver}

	for _, pod := range []*unstructured.Unstructured{a.Made, a.Before, a.After} {
		if itemsOf(pod.Object) > maxItems {
			return nil, []boundary.Finding{{Field: "spec", Verdict: boundary.Refused,
				Why: fmt.Sprintf("has more than %d items in its lists, and was changed by the admission of the logical cluster: write in the template what that adds, or use fewer variables, containers and volumes", maxItems)}}, nil
		}
	}
	before, after := contentOfPod(a.Before), contentOfPod(a.After)
	if refused := a.refusals(before, after); len(refused) > 0 {
		return nil, refused, nil
	}
	downBefore, _ := a.down(before)
	downAfter, findings := a.down(after)
	out, err := a.merge(downBefore, downAfter)
	return out, slices.DeleteFunc(findings, isRefusal), err
}

// itemsOf counts the items of all lists in a value.
func itemsOf(value any) (n int) {
	switch v := value.(type) {
	case map[string]any:
		for _, e := range v {
			n += itemsOf(e)
		}
	case []any:
		n = len(v)
		for _, e := range v {
			n += itemsOf(e)
		}
	}
	return n
}

func isRefusal(f boundary.Finding) bool {
	return f.Verdict == boundary.Refused || f.Verdict == boundary.Judged
}

// contentOfPod is what of a pod an admission may change.
func contentOfPod(pod *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{
		"labels": anyMap(userKeys(pod.GetLabels())), "annotations": anyMap(userKeys(pod.GetAnnotations())),
	}
	spec, _ := deepCopy(pod.Object["spec"]).(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	dropTokenVolumes(spec)
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
}

// refusals are the reasons for which there is no pod. What the table refuses it is asked about
// what is new, item by item: that the physical cluster has put something into a pod does not
// let a tenant change it, nor add another. What it judges as a whole it is asked about the
// whole, too.
func (a Admission) refusals(before, after map[string]any) []boundary.Finding {
	specBefore, specAfter := field(before, "spec"), field(after, "spec")
	var refused []boundary.Finding
	for _, name := range decidedBelow {
		if !reflect.DeepEqual(specBefore[name], specAfter[name]) {
			refused = append(refused, boundary.Finding{Field: "spec." + name, Verdict: boundary.Refused,
				Why: "was changed by the admission of the logical cluster, which is too late: write it in the template"})
		}
	}
	if at := directive(after, ""); at != "" {
		refused = append(refused, boundary.Finding{Field: at, Verdict: boundary.Refused, Why: "is no name"})
	}
	held := tokensOf(specBefore)
	for i, volume := range list(specAfter, "volumes") {
		for _, use := range tokensOf(map[string]any{"serviceAccountName": specAfter["serviceAccountName"], "volumes": []any{volume}}) {
			if !slices.Contains(held, use) {
				refused = append(refused, boundary.Finding{Field: fmt.Sprintf("spec.volumes[%d]", i), Verdict: boundary.Refused,
					Why: "mounts a token that the template does not name: write it in the template"})
			}
		}
	}
	news := news(before, after)
	if security, ok := specAfter["securityContext"]; ok { // by which containers are judged
		setNested(news, deepCopy(security), "spec", "securityContext")
	}
	refused = append(refused, boundary.Refusals(boundary.Filter(a.Pod, news, a.passage()))...)
	known := boundary.Filter(a.Pod, deepCopy(before).(map[string]any), a.passage())
	for _, f := range boundary.Filter(a.Pod, deepCopy(after).(map[string]any), a.passage()) {
		if f.Verdict == boundary.Judged && !slices.Contains(known, f) && !slices.Contains(refused, f) {
			refused = append(refused, f)
		}
	}
	return refused
}

// directive is the path of a key that begins as what a strategic merge patch takes for an
// instruction, such as "$patch" among annotations; empty if there is none. Nothing has
// validated the pod since a webhook changed it.
func directive(value any, at string) string {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := strings.TrimPrefix(at+"."+name, ".")
			if strings.HasPrefix(name, "$") {
				return below
			}
			if found := directive(v[name], below); found != "" {
				return found
			}
		}
	case []any:
		for i, item := range v {
			if found := directive(item, fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
	}
	return ""
}

func (a Admission) passage() boundary.Passage {
	p := a.Placing.passage()
	p.Asked = true
	return p
}

func tokensOf(spec map[string]any) []workload.TokenUse {
	var uses []workload.TokenUse
	for _, volume := range list(spec, "volumes") {
		for _, source := range list(field(volume, "projected"), "sources") {
			if token := field(source, "serviceAccountToken"); token != nil {
				uses = append(uses, workload.TokenOf(spec, token))
			}
		}
	}
	return uses
}

// news is what after has, and before has not: of maps by their fields, of lists the items.
func news(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range after {
		was, had := before[name]
		if had && reflect.DeepEqual(was, value) {
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			w, _ := was.(map[string]any)
			out[name] = news(w, v)
		case []any:
			w, _ := was.([]any)
			out[name] = deepCopy(slices.DeleteFunc(slices.Clone(v), func(item any) bool {
				return slices.ContainsFunc(w, func(other any) bool { return reflect.DeepEqual(item, other) })
			}))
		default:
			out[name] = deepCopy(value)
		}
	}
	return out
}

// down is a pod on the way that templates go.
func (a Admission) down(pod map[string]any) (map[string]any, []boundary.Finding) {
	pod = deepCopy(pod).(map[string]any)
	findings := boundary.Filter(a.Pod, pod, a.passage())
	templateDown(pod, a.Placing)
	return pod, findings
}

// merge brings the difference between two pods into the one that is made, as kubectl would a
// patch: containers, volumes and variables by name.
func (a Admission) merge(before, after map[string]any) (*unstructured.Unstructured, error) {
	var documents [3][]byte
	tolerations := changedList(field(before, "spec"), field(after, "spec"), field(a.Made.Object, "spec"), "tolerations")
	for _, pod := range []map[string]any{before, after} { // the list is no map to a patch, which would replace it
		delete(field(pod, "spec"), "tolerations")
	}
	for i, pod := range []map[string]any{before, after, a.Made.Object} {
		var err error
		if documents[i], err = json.Marshal(pod); err != nil {
			return nil, fmt.Errorf("encoding a pod: %w", err)
		}
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(documents[0], documents[1], corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("comparing a pod with the admitted one: %w", err)
	}
	merged, err := strategicpatch.StrategicMergePatch(documents[2], patch, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("changing a pod as it was admitted: %w", err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(merged); err != nil {
		return nil, fmt.Errorf("reading the admitted pod: %w", err)
	}
	if tolerations != nil {
		setNested(out.Object, tolerations, "spec", "tolerations")
	}
	return out, nil
}

// changedList is a list in made with the items that after has and before has not, and without
// those that are gone; nil if nothing is.
func changedList(before, after, made map[string]any, name string) []any {
	was, is := items(before, name), items(after, name)
	if reflect.DeepEqual(was, is) {
		return nil
	}
	in := func(all []any, item any) bool {
		return slices.ContainsFunc(all, func(other any) bool { return reflect.DeepEqual(item, other) })
	}
	out := slices.DeleteFunc(slices.Clone(items(made, name)), func(item any) bool { return in(was, item) && !in(is, item) })
	for _, item := range is {
		if !in(out, item) {
			out = append(out, item)
		}
	}
	return out
}

func items(m map[string]any, name string) []any {
	all, _ := m[name].([]any)
	return all
}
