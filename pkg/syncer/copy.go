package syncer

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Failure is why the physical cluster refused.
type Failure struct {
	// Reason is a CamelCase word, Message the sentence, without secrets.
	Reason, Message string
	// Immutable says that a field that cannot be changed is in the way.
	Immutable bool
}

// NotOurs is the failure that the name is taken on the physical cluster.
var NotOurs = Failure{
	Reason:  "NotOurs",
	Message: "an object of this name that does not belong to this control plane is on the physical cluster; it is left alone",
}

// ReasonNew is the reason of a Copy whose object was not applied yet.
const ReasonNew = "New"

// ReasonOtherNamespace is the reason of a Copy that records another physical namespace than
// the one of its Namespace.
const ReasonOtherNamespace = "OtherNamespace"

const (
	// ReasonAdopted is the reason of a Copy that a controller below has made its own.
	ReasonAdopted = "Adopted"
	// ReasonAdoptionAccepted is the same once the server has agreed: see AdoptionAccepted.
	ReasonAdoptionAccepted = "AdoptionAccepted"
)

// maxMessage bounds messages, in bytes.
const maxMessage = 512

func bounded(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage - len("...")
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "..."
}

func join(names []string) string { return strings.Join(names, ", ") }

// status is the wanted status of the Copy in a state.
func (p planner) status(state placementv1alpha1.CopyState, reason, message string) placementv1alpha1.CopyStatus {
	var s placementv1alpha1.CopyStatus
	if p.Copy != nil {
		s = *p.Copy.Status.DeepCopy()
	}
	s.State, s.Reason, s.Message, s.Controller = state, reason, bounded(message), nil
	if s.PhysicalNamespace == "" { // recorded once, as the name of the namespace is
		s.PhysicalNamespace = p.Namespace.Name
	}
	if p.Carried != nil {
		s.Carried = *p.Carried
	}
	if p.physical != physicalOurs || p.copy == copyStale || (p.copy == copyNone && state == placementv1alpha1.CopyPending) {
		if state == placementv1alpha1.CopySynced && p.Logical != nil { // finished and tidied away
			s.AppliedGeneration, s.ObservedGeneration = p.Logical.GetGeneration(), p.Logical.GetGeneration()
		}
		return s
	}
	if s.PhysicalUID != p.Physical.GetUID() {
		s.PhysicalUID, s.PhysicalGeneration, s.AppliedGeneration = p.Physical.GetUID(), p.Physical.GetGeneration(), 0
	}
	if state == placementv1alpha1.CopySynced {
		p.synced(&s)
	}
	s.Observed, s.NoEndpoints = p.statusBelow(), p.noEndpoints()
	s.Drifts += p.Reverted
	if state != placementv1alpha1.CopyRemoving {
		s.Volume = p.volumeReport(s.Volume)
	}
	return s
}

// synced notes that the generation of Logical is below, and which generation of
// the copy answers to it.
func (p planner) synced(s *placementv1alpha1.CopyStatus) {
	generation := p.Logical.GetGeneration()
	if p.Applied || s.AppliedGeneration != generation {
		s.PhysicalGeneration = p.Physical.GetGeneration()
	}
	s.AppliedGeneration = generation
	if revision := p.revision(); s.Revision != revision {
		s.Revision = revision
		s.ObservedGeneration = min(s.ObservedGeneration, generation-1) // that was of another content
	}
	if ordinals, known := p.ordinals(); known && p.Ref.Kind.Semantics == workload.StatefulSetSemantics {
		s.Ordinals = ordinals
	}
	if observes(p.Ref.Kind, field(p.Physical.Object, "status"), s.PhysicalGeneration) {
		s.ObservedGeneration = generation
	}
}

// observes says that the controllers below have acted on a generation of the
// copy. Of kinds that do not tell it is assumed.
func observes(kind workload.Kind, status map[string]any, generation int64) bool {
	observed, reported := integer(status, "observedGeneration")
	if reported {
		return observed >= generation
	}
	return !kind.Status.Generation
}

// write wants the Copy of the incarnation uid to have a status; nothing is
// written if it has.
func (p planner) write(status placementv1alpha1.CopyStatus, uid types.UID) []Action {
	if p.Copy != nil {
		if equalStatus(p.Copy.Status, status) {
			return nil
		}
		c := p.Copy.DeepCopy()
		c.Status = status
		if left := p.reportedAgain(c); left > 0 {
			return wait(left, "Reported")
		}
		if left := p.countingDelay(c); left > 0 {
			return []Action{{Verb: Wait, After: left, Counting: true, Why: "Counting"}}
		}
		return []Action{{Verb: WriteCopy, Copy: c, Why: string(status.State)}}
	}
	return []Action{{Verb: WriteCopy, Why: string(status.State), Copy: &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Ref.LogicalNamespace(), Name: p.Ref.CopyName(p.Target)},
		Spec: placementv1alpha1.CopySpec{
			Object: placementv1alpha1.ObjectReference{
				Group: p.Ref.Kind.Group, Version: p.Ref.Kind.Version, Resource: p.Ref.Kind.Resource,
				Kind: p.Ref.Kind.Kind, Name: p.Ref.Name, UID: uid,
			},
			PhysicalCluster: p.Target,
		},
		Status: status,
	}}}
}

// reportedAgain is how long to wait before the Copy is written again: more is likely to
// be said in a moment.
func (p planner) reportedAgain(c *placementv1alpha1.Copy) time.Duration {
	since := p.Reported
	if p.AppliedAt.After(since) && onlyApplied(p.Copy, c) {
		since = p.AppliedAt
	}
	if since.IsZero() {
		return 0
	}
	return max(0, reportDelay(p.Copy, c)-p.Now.Sub(since))
}

func equalStatus(a, b placementv1alpha1.CopyStatus) bool {
	observedA, observedB := rawOf(a.Observed), rawOf(b.Observed)
	a.Observed, b.Observed = nil, nil
	a.Transfer, b.Transfer = nil, nil // is the server's
	return equality.Semantic.DeepEqual(a, b) && equality.Semantic.DeepEqual(observedA, observedB)
}

// unmarshal reads JSON with whole numbers as int64, as in objects.
func unmarshal(text string, into any) error { return utiljson.Unmarshal([]byte(text), into) }

func rawOf(e *runtime.RawExtension) map[string]any {
	if e == nil {
		return nil
	}
	var m map[string]any
	if utiljson.Unmarshal(e.Raw, &m) != nil { // with whole numbers as int64, as in objects
		return nil
	}
	return m
}

// observedStatus is the raw status that a Copy recorded; empty if none.
func observedStatus(c *placementv1alpha1.Copy) map[string]any {
	if c == nil {
		return nil
	}
	return rawOf(c.Status.Observed)
}

func rawStatus(obj map[string]any) *runtime.RawExtension {
	status := field(obj, "status")
	if len(status) == 0 {
		return nil
	}
	b, err := json.Marshal(status)
	if err != nil {
		return nil
	}
	return &runtime.RawExtension{Raw: b}
}

// integer reads a number as unstructured objects and JSON have them.
func integer(m map[string]any, name string) (n int64, ok bool) {
	switch v := m[name].(type) {
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case int:
		return int64(v), true
	case float64:
		return int64(v), true
	}
	return 0, false
}

// conditionIs says that the condition of a type has a status.
func conditionIs(status map[string]any, conditionType, want string) bool {
	for _, c := range list(status, "conditions") {
		if c["type"] == conditionType {
			return c["status"] == want
		}
	}
	return false
}

// ownsPath says that a set of fields has the one at the end of a path.
func ownsPath(raw []byte, path []string) bool {
	var fields map[string]any
	if len(path) == 0 || json.Unmarshal(raw, &fields) != nil {
		return false
	}
	last := len(path) - 1
	for _, name := range path[:last] {
		fields = field(fields, "f:"+name)
	}
	_, ok := fields["f:"+path[last]]
	return ok
}
